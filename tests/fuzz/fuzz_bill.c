/* A line of the spool of bills: it is one, whole, or it is told apart. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/bills/bill.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_bill bill;
    json_t *whole = NULL;
    if (!pin_bill_parse((const char *)data, size, &bill, &whole))
        return 0;
    assert(strlen(bill.id) == PIN_BILL_ID - 1 && bill.part >= 1);
    assert(bill.sandbox != NULL && json_is_object(bill.labels));
    json_decref(whole);
    return 0;
}
