pin_fuzz_target(fuzz_kept_request LIBRARIES pin_kept)
pin_fuzz_target(fuzz_kept_log LIBRARIES pin_kept)
pin_fuzz_target(fuzz_code_result LIBRARIES pin_base pin::jansson)
target_sources(fuzz_code_result PRIVATE "${CMAKE_SOURCE_DIR}/tools/pinfold-kept/code_result.c")
