pin_unit_test(test_plan LIBRARIES pin_plan pin_bundle pin_images pin_policy pin_base)
pin_unit_test(test_changes LIBRARIES pin_changes pin_state pin_base pin::jansson)
pin_unit_test(test_plan_layers LIBRARIES pin_plan pin_bundle pin_images pin_policy pin_base)
pin_unit_test(test_plan_engine LIBRARIES pin_plan pin_bundle pin_images pin_policy pin_base)
