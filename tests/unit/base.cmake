pin_unit_test(test_base_units LIBRARIES pin_base)
pin_unit_test(test_base_text LIBRARIES pin_base)
pin_unit_test(test_base_error LIBRARIES pin_base)
pin_unit_test(test_base_io LIBRARIES pin_base)
