pin_fuzz_target(fuzz_tool_request LIBRARIES pin_tool pin_base pin::jansson MAX_LEN 8192)
pin_fuzz_target(fuzz_tool_message LIBRARIES pin_tool pin_base pin::jansson MAX_LEN 8192)
