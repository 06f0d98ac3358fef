#include "runtime/bills/books.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/bills/bill.h"
#include "runtime/private/private_dir.h"

#define BUSY_MS 10000
#define MS_PER_S 1000.0
#define NS_PER_S 1e9

/* Each brings the books from the version of its index to the next. */
static const char *const migrations[] = {
    "CREATE TABLE bills (id TEXT NOT NULL, part INTEGER NOT NULL, at_ms INTEGER NOT NULL, kind TEXT NOT NULL,"
    " sandbox TEXT NOT NULL, cpu_ns INTEGER NOT NULL, memory_byte_ms INTEGER NOT NULL, wall_ms INTEGER NOT "
    "NULL,"
    " egress_out INTEGER NOT NULL, egress_in INTEGER NOT NULL, runs INTEGER NOT NULL, PRIMARY KEY (id, part))"
    " WITHOUT ROWID;"
    "CREATE INDEX bills_at ON bills (at_ms);"
    "CREATE TABLE labels (id TEXT NOT NULL, label TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (id, "
    "label))"
    " WITHOUT ROWID;",
    "ALTER TABLE bills ADD COLUMN published_out INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE bills ADD COLUMN published_in INTEGER NOT NULL DEFAULT 0;",
};

static const char enter_bill[] = "INSERT OR IGNORE INTO bills VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
static const char enter_label[] = "INSERT OR IGNORE INTO labels VALUES (?, ?, ?)";
static const char sums[] =
    "SELECT l.value, TOTAL(b.cpu_ns), TOTAL(b.memory_byte_ms), TOTAL(b.wall_ms), SUM(b.egress_out), "
    "SUM(b.egress_in),"
    " SUM(b.runs), COUNT(DISTINCT b.id), SUM(b.published_out), SUM(b.published_in) FROM bills b LEFT JOIN "
    "labels l ON l.id = b.id AND l.label = ?1"
    " WHERE b.at_ms >= ?2 AND b.at_ms < ?3 GROUP BY l.value ORDER BY l.value IS NULL, l.value";

struct pin_books {
    sqlite3 *base;
    int folder;
    uint64_t skipped;
};

static bool fail(struct pin_books *books, struct pin_error *err) {
    bool busy = sqlite3_errcode(books->base) == SQLITE_BUSY;
    return pin_fail(err, busy ? PIN_ERROR_BUSY : PIN_ERROR_SYSTEM, "the books of bills: %.160s",
                    sqlite3_errmsg(books->base));
}

static bool run(struct pin_books *books, const char *sql, struct pin_error *err) {
    return sqlite3_exec(books->base, sql, NULL, NULL, NULL) == SQLITE_OK || fail(books, err);
}

/* All of it, or nothing. */
static bool end(struct pin_books *books, bool good, struct pin_error *err) {
    if (good && run(books, "COMMIT", err))
        return true;
    (void)sqlite3_exec(books->base, "ROLLBACK", NULL, NULL,
                       NULL); /* some failures have rolled back already */
    return false;
}

static bool read_version(struct pin_books *books, int *version, struct pin_error *err) {
    sqlite3_stmt *query = NULL;
    bool ok = sqlite3_prepare_v2(books->base, "PRAGMA user_version", -1, &query, NULL) == SQLITE_OK &&
              sqlite3_step(query) == SQLITE_ROW;
    if (ok)
        *version = sqlite3_column_int(query, 0);
    else
        (void)fail(books, err);
    (void)sqlite3_finalize(query);
    return ok;
}

static bool migrate(struct pin_books *books, struct pin_error *err) {
    char text[64];
    int version = 0;
    if (!read_version(books, &version, err))
        return false;
    if (version > (int)PIN_COUNT(migrations)) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED,
                       "the books of bills are of version %d, and this pinfold knows %zu", version,
                       PIN_COUNT(migrations));
        return pin_hint(err, "use the newer pinfold that has written them");
    }
    for (; version < (int)PIN_COUNT(migrations); version++) {
        (void)snprintf(text, sizeof(text), "PRAGMA user_version = %d", version + 1);
        if (!run(books, migrations[version], err) || !run(books, text, err))
            return false;
    }
    return true;
}

static bool open_base(struct pin_books *books, struct pin_error *err) {
    char path[64];
    PIN_CLOSE int file = pin_private_file(books->folder, "bills.db", O_RDWR | O_CREAT, err);
    if (file < 0)
        return false;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/bills.db", books->folder);
    if (sqlite3_open_v2(path, &books->base, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return fail(books, err);
    (void)sqlite3_busy_timeout(books->base, BUSY_MS);
    return run(books, "BEGIN IMMEDIATE", err) && end(books, migrate(books, err), err);
}

static bool step(struct pin_books *books, sqlite3_stmt *query, struct pin_error *err) {
    bool ok = sqlite3_step(query) == SQLITE_DONE || fail(books, err);
    (void)sqlite3_reset(query);
    return ok;
}

struct entering {
    struct pin_books *books;
    sqlite3_stmt *bill, *label;
};

static bool enter(const struct entering *entering, const struct pin_bill *bill, struct pin_error *err) {
    const uint64_t values[] = {bill->cpu_ns,        bill->memory_byte_ms, bill->wall_ms,
                               bill->egress_out,    bill->egress_in,      bill->runs,
                               bill->published_out, bill->published_in};
    const char *label;
    const json_t *value;
    sqlite3_stmt *query = entering->bill;
    (void)sqlite3_bind_text(query, 1, bill->id, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(query, 2, bill->part);
    (void)sqlite3_bind_int64(query, 3, (sqlite3_int64)bill->at_ms);
    (void)sqlite3_bind_text(query, 4, bill->kind, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(query, 5, bill->sandbox, -1, SQLITE_STATIC);
    for (size_t i = 0; i < PIN_COUNT(values); i++)
        (void)sqlite3_bind_int64(query, (int)i + 6, (sqlite3_int64)values[i]);
    if (!step(entering->books, query, err))
        return false;
    json_object_foreach((json_t *)(uintptr_t)bill->labels, label, value) {
        (void)sqlite3_bind_text(entering->label, 1, bill->id, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(entering->label, 2, label, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(entering->label, 3, json_string_value(value), -1, SQLITE_STATIC);
        if (!step(entering->books, entering->label, err))
            return false;
    }
    return true;
}

static bool enter_lines(const struct entering *entering, FILE *spool, struct pin_error *err) {
    PIN_FREE char *line = NULL;
    size_t room = 0;
    ssize_t size;
    while ((size = getline(&line, &room, spool)) > 0) {
        struct pin_bill bill;
        json_t *whole = NULL;
        if (!pin_bill_parse(line, (size_t)size - (line[size - 1] == '\n'), &bill, &whole)) {
            entering->books->skipped++;
            continue;
        }
        bool ok = enter(entering, &bill, err);
        json_decref(whole);
        if (!ok)
            return false;
    }
    return true;
}

static bool enter_spool(struct pin_books *books, FILE *spool, struct pin_error *err) {
    struct entering entering = {.books = books};
    if (!run(books, "BEGIN IMMEDIATE", err))
        return false;
    bool ok = (sqlite3_prepare_v2(books->base, enter_bill, -1, &entering.bill, NULL) == SQLITE_OK &&
               sqlite3_prepare_v2(books->base, enter_label, -1, &entering.label, NULL) == SQLITE_OK) ||
              fail(books, err);
    ok = ok && enter_lines(&entering, spool, err);
    (void)sqlite3_finalize(entering.bill);
    (void)sqlite3_finalize(entering.label);
    return end(books, ok, err);
}

/* Entered, then removed: whoever is killed between leaves bills that are entered once more, which changes
 * nothing. */
static bool enter_file(struct pin_books *books, const char *name, struct pin_error *err) {
    struct pin_error gone = {0};
    int file = pin_private_file(books->folder, name, O_RDONLY, &gone);
    FILE *spool = file < 0 ? NULL : fdopen(file, "r");
    if (spool == NULL && gone.kind == PIN_ERROR_NOT_FOUND)
        return true; /* another one was faster */
    if (spool == NULL) {
        *err = gone;
        return file < 0 ? false : pin_fail_errno(err, "read bills");
    }
    bool ok = enter_spool(books, spool, err);
    (void)fclose(spool);
    return ok && (unlinkat(books->folder, name, 0) == 0 || errno == ENOENT ||
                  pin_fail_errno(err, "remove bills that are entered"));
}

static bool enter_all(struct pin_books *books, struct pin_error *err) {
    PIN_CLOSE int again = -1;
    if (!pin_bill_take_spool(books->folder, err))
        return false;
    again = openat(books->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again < 0 ? NULL : fdopendir(again);
    if (list == NULL)
        return pin_fail_errno(err, "list the bills");
    (void)pin_steal_fd(&again);
    bool ok = true;
    const struct dirent *entry;
    while (ok && (entry = pin_next_entry(list, err)) != NULL)
        if (strncmp(entry->d_name, "spool.", 6) == 0)
            ok = enter_file(books, entry->d_name, err);
    (void)closedir(list);
    return ok && !pin_is_set(err);
}

struct pin_books *pin_books_open(struct pin_error *err) {
    struct pin_books *books = calloc(1, sizeof(*books));
    if (books == NULL) {
        (void)pin_fail_errno(err, "open the books");
        return NULL;
    }
    books->folder = pin_bill_folder(true, err);
    if (books->folder >= 0 && open_base(books, err) && enter_all(books, err))
        return books;
    pin_books_close(books);
    return NULL;
}

void pin_books_close(struct pin_books *books) {
    if (books == NULL)
        return;
    (void)sqlite3_close(books->base);
    pin_close_fd(&books->folder);
    free(books);
}

uint64_t pin_books_skipped(const struct pin_books *books) {
    return books->skipped;
}

bool pin_books_sum(struct pin_books *books, const char *label, uint64_t since_ms, uint64_t until_ms,
                   pin_books_each *each, void *self, struct pin_error *err) {
    sqlite3_stmt *query = NULL;
    int code;
    if (sqlite3_prepare_v2(books->base, sums, -1, &query, NULL) != SQLITE_OK)
        return fail(books, err);
    (void)sqlite3_bind_text(query, 1, label, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(query, 2, (sqlite3_int64)since_ms);
    (void)sqlite3_bind_int64(query, 3, (sqlite3_int64)(until_ms > INT64_MAX ? INT64_MAX : until_ms));
    while ((code = sqlite3_step(query)) == SQLITE_ROW) {
        const struct pin_books_sum sum = {
            .value = (const char *)sqlite3_column_text(query, 0),
            .cpu_seconds = sqlite3_column_double(query, 1) / NS_PER_S,
            .memory_byte_seconds = sqlite3_column_double(query, 2) / MS_PER_S,
            .wall_seconds = sqlite3_column_double(query, 3) / MS_PER_S,
            .egress_out = (uint64_t)sqlite3_column_int64(query, 4),
            .egress_in = (uint64_t)sqlite3_column_int64(query, 5),
            .runs = (uint64_t)sqlite3_column_int64(query, 6),
            .sandboxes = (uint64_t)sqlite3_column_int64(query, 7),
            .published_out = (uint64_t)sqlite3_column_int64(query, 8),
            .published_in = (uint64_t)sqlite3_column_int64(query, 9),
        };
        each(self, &sum);
    }
    bool ok = code == SQLITE_DONE || fail(books, err);
    (void)sqlite3_finalize(query);
    return ok;
}
