pin_fuzz_target(fuzz_tool_request LIBRARIES pin_tool pin_base pin::jansson MAX_LEN 8192)
pin_fuzz_target(fuzz_tool_message LIBRARIES pin_tool pin_base pin::jansson MAX_LEN 8192)
pin_fuzz_target(fuzz_tool_requirement LIBRARIES pin_tool pin_base MAX_LEN 1200)
pin_fuzz_target(fuzz_tool_config LIBRARIES pin_tool pin_policy pin_base pin::jansson MAX_LEN 4096)
