pin_unit_test(test_frames LIBRARIES pin_supervise pin_base pin::md)
pin_unit_test(test_loop LIBRARIES pin_supervise pin_base)
