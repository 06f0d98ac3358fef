pin_unit_test(test_policy_json LIBRARIES pin_policy pin_base)
pin_unit_test(test_policy_read LIBRARIES pin_policy pin_base)
pin_unit_test(test_policy_merge LIBRARIES pin_policy pin_base)
pin_unit_test(test_policy_file LIBRARIES pin_policy pin_base)
pin_unit_test(test_policy_write LIBRARIES pin_policy pin_base pin::jansson)
pin_unit_test(test_policy_order SOURCES policy_random.c LIBRARIES pin_policy pin_base)
pin_unit_test(test_policy_site SOURCES policy_random.c LIBRARIES pin_policy pin_base)
pin_unit_test(test_policy_names LIBRARIES pin_policy pin_base)
pin_unit_test(test_policy_publish LIBRARIES pin_policy pin_base)
pin_unit_test(test_profile LIBRARIES pin_profiles pin_policy pin_base)

# The reader and the published schema agree: see tests/conformance/policy.
set(conformance "${CMAKE_SOURCE_DIR}/tests/conformance/policy")
add_executable(policy_check "${conformance}/policy_check.c")
target_link_libraries(policy_check PRIVATE pin_flags pin_policy pin_base)
add_test(NAME policy_schema
    COMMAND /usr/bin/python3 -m pytest -q -p no:cacheprovider "${conformance}/test_policy_schema.py")
set_tests_properties(policy_schema PROPERTIES
    ENVIRONMENT "POLICY_CHECK=$<TARGET_FILE:policy_check>;PYTHONDONTWRITEBYTECODE=1")

# The order over policies, held to a model of its own of what a run may do: test_policy_oracle.py.
add_executable(policy_compare "${conformance}/policy_compare.c")
target_link_libraries(policy_compare PRIVATE pin_flags pin_policy pin_base)
add_test(NAME policy_oracle COMMAND /usr/bin/python3 "${conformance}/policy_oracle.py" "$<TARGET_FILE:policy_compare>")
