pin_unit_test(test_tool_args LIBRARIES pin_tool pin_base pin::jansson)
pin_unit_test(test_tool_env LIBRARIES pin_tool pin_base pin::jansson)
pin_unit_test(test_tool_result LIBRARIES pin_tool pin_supervise pin_base pin::jansson)
pin_unit_test(test_tool_fingerprint LIBRARIES pin_tool pin_bundle pin_images pin_policy pin_base pin::jansson)
