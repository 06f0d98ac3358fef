pin_unit_test(test_base_units LIBRARIES pin_base)
pin_unit_test(test_base_text LIBRARIES pin_base)
pin_unit_test(test_base_error LIBRARIES pin_base)
pin_unit_test(test_base_io LIBRARIES pin_base)
pin_unit_test(test_users LIBRARIES pin_base)
pin_unit_test(test_side LIBRARIES pin_base)
pin_unit_test(test_musl LIBRARIES pin_base)
target_compile_options(test_musl PRIVATE -fno-builtin -U_FORTIFY_SOURCE
    $<$<C_COMPILER_ID:GNU>:-fno-tree-loop-distribute-patterns>)
