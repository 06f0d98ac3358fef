pin_unit_test(test_options LIBRARIES pin_cli)
