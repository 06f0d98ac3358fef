pin_unit_test(test_frames LIBRARIES pin_supervise pin_base pin::md)
pin_unit_test(test_loop LIBRARIES pin_supervise pin_base)

add_library(pin_init_harness STATIC init_harness.c)
target_include_directories(pin_init_harness PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(pin_init_harness PUBLIC pin_flags pin_init_image PRIVATE PkgConfig::CMOCKA)
pin_unit_test(test_init LIBRARIES pin_init_harness pin_supervise pin_base)
pin_unit_test(test_supervise LIBRARIES pin_init_harness pin_supervise pin_base util)
