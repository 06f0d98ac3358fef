pin_unit_test(test_kept_request LIBRARIES pin_kept)
pin_unit_test(test_kept_wire LIBRARIES pin_kept)
pin_unit_test(test_kept_log LIBRARIES pin_kept)
pin_unit_test(test_code_result SOURCES "${CMAKE_SOURCE_DIR}/tools/pinfold-kept/code_result.c" LIBRARIES pin_base pin::jansson)
