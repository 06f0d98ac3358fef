pin_unit_test(test_tool_args LIBRARIES pin_tool pin_base pin::jansson)
pin_unit_test(test_tool_env LIBRARIES pin_tool pin_base pin::jansson)
pin_unit_test(test_tool_result LIBRARIES pin_tool pin_supervise pin_base pin::jansson)
pin_unit_test(test_tool_fingerprint LIBRARIES pin_tool pin_bundle pin_images pin_policy pin_base pin::jansson)
pin_unit_test(test_tool_wait SOURCES "${CMAKE_SOURCE_DIR}/tools/pinfold-tool/warm_wait.c" "${CMAKE_SOURCE_DIR}/tools/pinfold-kept/client.c"
    LIBRARIES pin_kept pin_supervise pin_state)
pin_unit_test(test_tool_requirement LIBRARIES pin_tool pin_base)
pin_unit_test(test_tool_config LIBRARIES pin_tool pin_policy pin_base pin::jansson)
pin_unit_test(test_tool_deps LIBRARIES pin_tool_deps pin_tool pin_state pin_base)
pin_unit_test(test_tool_index SOURCES "${CMAKE_SOURCE_DIR}/tools/pinfold-tool/deps_index.c" "${CMAKE_SOURCE_DIR}/tools/pinfold-tool/deps_policy.c"
    LIBRARIES pin_front pin_tool pin_policy pin_base pin::jansson)

# What test_tool_properties.py asks.
add_executable(args_harness "${CMAKE_SOURCE_DIR}/tests/integration/args_harness.c")
target_link_libraries(args_harness PRIVATE pin_flags pin_tool pin_base pin::jansson)
