/* The figures of a group, from files as the kernel writes them: the directories are plain ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "runtime/state/tree.h"
#include "tools/pinfold-oci/stats.h"

struct file {
    const char *name, *text;
};

static char base[] = "/tmp/pinfold-stats.XXXXXX";

static int make_base(void **state) {
    (void)state;
    return mkdtemp(base) == NULL ? -1 : 0;
}

static int remove_base(void **state) {
    struct pin_error err = {0};
    (void)state;
    PIN_CLOSE int parent = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return pin_tree_remove(parent, base + strlen("/tmp/"), &err) ? 0 : -1;
}

/* Of a group that has the files in its one directory, as compact JSON of the member `part`. */
static char *figures(const struct file *files, size_t count, bool v2, const char *part) {
    static int number;
    struct pin_cgroup_facts facts = {.count = 1, .unified = v2 ? 0 : -1};
    struct pin_error err = {0};
    char name[16], path[128];
    facts.hierarchies[0] = (struct pin_cgroup_hierarchy){.v2 = v2, .usable = true};
    (void)snprintf(facts.hierarchies[0].base, PIN_CGROUP_PATH, "%s", base);
    (void)snprintf(name, sizeof(name), "g%d", number++);
    (void)snprintf(path, sizeof(path), "%s/%s", base, name);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s/%s", base, name, files[i].name);
        FILE *file = fopen(path, "we");
        assert_non_null(file);
        (void)fputs(files[i].text, file);
        (void)fclose(file);
    }
    PIN_CGROUP struct pin_cgroup *group = pin_cgroup_open_at(&facts, name, &err);
    assert_non_null(group);
    struct pin_cgroup_usage used = {0};
    json_t *data = pin_oci_stats(group, &used, 0);
    char *text = json_dumps(json_object_get(data, part), JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(data);
    return text;
}

struct row {
    const char *part;
    bool v2;
    struct file files[6];
    const char *expected;
};

#define ZEROS "\"failcnt\":0,\"limit\":0"
#define ENDLESS "9223372036854771712"

static const struct row rows[] = {
    {"hugetlb",
     true,            {{"hugetlb.2MB.current", "4194304\n"},
      {"hugetlb.2MB.events", "max 3\n"},
      {"hugetlb.2MB.max", "max\n"},
      {"hugetlb.2MB.rsvd.current", "9\n"},
      {"hugetlb.1GB.current", "0\n"}},
     "{\"1GB\":{\"failcnt\":0},\"2MB\":{\"failcnt\":3,\"usage\":4194304}}"                                                   },
    {"hugetlb",
     false,           {{"hugetlb.2MB.usage_in_bytes", "2097152\n"},
      {"hugetlb.2MB.max_usage_in_bytes", "4194304\n"},
      {"hugetlb.2MB.failcnt", "7\n"},
      {"hugetlb.2MB.rsvd.usage_in_bytes", "9\n"}},
     "{\"2MB\":{\"failcnt\":7,\"max\":4194304,\"usage\":2097152}}"                                                           },
    {"hugetlb", true, {{"hugetlb..current", "1\n"}, {"memory.current", "1\n"}},                                          "{}"},
    {"blkio",
     true,            {{"io.stat", "254:0 rbytes=8192 wbytes=0 rios=2 wios=0 dbytes=0 dios=0\nnonsense\n7:1 wios=5\n"}},
     "{\"ioServiceBytesRecursive\":[{\"major\":254,\"op\":\"Read\",\"value\":8192},"
     "{\"major\":254,\"op\":\"Write\"}],\"ioServicedRecursive\":[{\"major\":254,\"op\":\"Read\",\"value\":2},"
     "{\"major\":254,\"op\":\"Write\"},{\"major\":7,\"minor\":1,\"op\":\"Write\",\"value\":5}]}"                             },
    {"blkio",
     false,           {{"blkio.throttle.io_serviced_recursive", "8:16 Read 3\nTotal 3\n"}},
     "{\"ioServicedRecursive\":[{\"major\":8,\"minor\":16,\"op\":\"Read\",\"value\":3}]}"                                    },
    {"blkio",   true, {{"io.stat", ""}},                                                                                 "{}"},
    {"memory",
     true,            {{"memory.current", "1000\n"},
      {"memory.max", "5000\n"},
      {"memory.swap.current", "200\n"},
      {"memory.swap.max", "3000\n"}},
     "{\"kernel\":{" ZEROS "},\"kernelTCP\":{" ZEROS
     "},\"swap\":{\"failcnt\":0,\"limit\":8000,\"usage\":1200},"
     "\"usage\":{\"failcnt\":0,\"limit\":5000,\"usage\":1000}}"                                                              },
    {"memory",
     true,            {{"memory.current", "1000\n"},
      {"memory.max", "max\n"},
      {"memory.swap.current", "0\n"},
      {"memory.swap.max", "0\n"}},
     "{\"kernel\":{" ZEROS "},\"kernelTCP\":{" ZEROS "},\"swap\":{\"failcnt\":0,\"limit\":" ENDLESS
     ",\"usage\":1000},\"usage\":{\"failcnt\":0,\"limit\":" ENDLESS ",\"usage\":1000}}"                                      },
    {"cpu",
     true,            {{"cpu.stat",
       "usage_usec 30\nuser_usec 20\nsystem_usec 10\nnr_periods 4\nnr_throttled 1\nthrottled_usec 2\n"}},
     "{\"throttling\":{\"periods\":4,\"throttledPeriods\":1,\"throttledTime\":2000},"
     "\"usage\":{\"kernel\":10000,\"user\":20000}}"                                                                          },
    {"blkio",
     true,            {{"io.pressure", "some avg10=0.25 avg60=1.50 avg300=100.00 total=12345678901\nfull avg10=0.00 "
                      "avg60=0.50 avg300=0.00 total=7\n"}},
     "{\"psi\":{\"full\":{\"avg10\":0.0,\"avg300\":0.0,\"avg60\":0.5,\"total\":7},"
     "\"some\":{\"avg10\":0.25,\"avg300\":100.0,\"avg60\":1.5,\"total\":12345678901}}}"                                      },
    {"cpu",
     true,            {{"cpu.pressure", "some avg10=0.25 avg60=0.00 avg300=0.00 total=3\nnonsense avg10=1\n"}},
     "{\"psi\":{\"full\":{\"avg10\":0.0,\"avg300\":0.0,\"avg60\":0.0,\"total\":0},"
     "\"some\":{\"avg10\":0.25,\"avg300\":0.0,\"avg60\":0.0,\"total\":3}},"
     "\"throttling\":{},\"usage\":{\"kernel\":0,\"user\":0}}"                                                                },
};

static void figures_have_runc_s_keys(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        size_t count = 0;
        while (count < PIN_COUNT(rows[i].files) && rows[i].files[count].name != NULL)
            count++;
        PIN_FREE char *text = figures(rows[i].files, count, rows[i].v2, rows[i].part);
        assert_string_equal(text, rows[i].expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(figures_have_runc_s_keys)};
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
