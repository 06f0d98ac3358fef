#include "runtime/audit/verify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/audit/lines.h"
#include "runtime/private/private_dir.h"

static const char *const fault_names[] = {
    [PIN_AUDIT_MALFORMED] = "malformed", [PIN_AUDIT_EDITED] = "edited",
    [PIN_AUDIT_REPLACED] = "replaced",   [PIN_AUDIT_REMOVED] = "removed",
    [PIN_AUDIT_MISPLACED] = "misplaced", [PIN_AUDIT_TRUNCATED] = "truncated",
    [PIN_AUDIT_UNHEADED] = "unheaded",
};
_Static_assert(PIN_COUNT(fault_names) == PIN_AUDIT_FAULT_COUNT, "every fault has a name");

const char *pin_audit_fault_name(enum pin_audit_fault fault) {
    return fault_names[fault];
}

void pin_audit_verifier_init(struct pin_audit_verifier *verifier, uint64_t from,
                             pin_audit_on_finding *on_finding, void *self) {
    *verifier = (struct pin_audit_verifier){.on_finding = on_finding,
                                            .self = self,
                                            .from = from,
                                            .expected = from,
                                            .hash = PIN_AUDIT_NO_HASH,
                                            .has_hash = from == 1};
}

static void tell(struct pin_audit_verifier *verifier, enum pin_audit_fault fault, const char *file,
                 uint64_t line, uint64_t seq, uint64_t last) {
    const struct pin_audit_finding finding = {fault, file, line, seq, last};
    verifier->findings++;
    verifier->on_finding(verifier->self, &finding);
}

/* Where the chain breaks between two records that are each intact, the one before isn't the one that was. */
static void check_chain(struct pin_audit_verifier *verifier, const char *file, uint64_t number,
                        const struct pin_audit_record *record) {
    if (verifier->has_hash && !verifier->is_edited && strcmp(record->prev, verifier->hash) != 0)
        tell(verifier, PIN_AUDIT_REPLACED, file, number, record->seq - 1, record->seq - 1);
}

static void check_record(struct pin_audit_verifier *verifier, const char *file, uint64_t number,
                         const struct pin_audit_record *record) {
    uint64_t seq = record->is_intact ? record->seq : verifier->expected; /* its number may be edited, too */
    if (!record->is_intact) {
        tell(verifier, PIN_AUDIT_EDITED, file, number, seq, seq);
    } else if (seq < verifier->expected) {
        tell(verifier, PIN_AUDIT_MISPLACED, file, number, seq, seq);
        return; /* those around it are judged without it */
    } else if (seq > verifier->expected) {
        tell(verifier, PIN_AUDIT_REMOVED, file, number, verifier->expected, seq - 1);
    } else {
        check_chain(verifier, file, number, record);
    }
    verifier->expected = seq + 1;
    verifier->has_hash = true;
    memcpy(verifier->earlier, verifier->hash, sizeof(verifier->earlier));
    verifier->is_edited = !record->is_intact;
    memcpy(verifier->hash, record->hash, sizeof(verifier->hash));
}

void pin_audit_verifier_line(struct pin_audit_verifier *verifier, const char *file, uint64_t number,
                             const char *line, size_t size) {
    struct pin_audit_record record;
    verifier->on_record = pin_audit_record_parse(line, size, &record);
    if (!verifier->on_record) {
        tell(verifier, PIN_AUDIT_MALFORMED, file, number, 0, 0);
        return;
    }
    verifier->records++;
    check_record(verifier, file, number, &record);
    pin_audit_record_free(&record);
}

void pin_audit_verifier_end(struct pin_audit_verifier *verifier, const char *file,
                            const struct pin_audit_head *head) {
    uint64_t last = verifier->expected - 1;
    if (head == NULL)
        return;
    if (last < head->seq)
        tell(verifier, PIN_AUDIT_TRUNCATED, file, 0, verifier->expected, head->seq);
    else if (last > head->seq + 1) /* one ahead is a writer that was killed before it wrote the head */
        tell(verifier, PIN_AUDIT_UNHEADED, file, 0, head->seq + 1, last);
    else if (last == head->seq + 1 && verifier->records > 1 && verifier->findings == 0 &&
             strcmp(verifier->earlier, head->hash) != 0)
        tell(verifier, PIN_AUDIT_REPLACED, file, 0, head->seq, head->seq);
    else if (last == head->seq && verifier->is_torn && verifier->on_record) /* the head counts its end */
        tell(verifier, PIN_AUDIT_TRUNCATED, file, 0, last, last);
    else if (last == head->seq && last > 0 && !verifier->is_edited && verifier->records > 0 &&
             strcmp(verifier->hash, head->hash) != 0)
        tell(verifier, PIN_AUDIT_REPLACED, file, 0, last, last);
}

/* "audit.jsonl.00000000000000000001" */
static bool is_archive(const struct pin_audit *audit, const char *name) {
    size_t length = strlen(audit->name);
    return strncmp(name, audit->name, length) == 0 && name[length] == '.' &&
           strspn(name + length + 1, "0123456789") == PIN_AUDIT_SEQ_DIGITS &&
           name[length + 1 + PIN_AUDIT_SEQ_DIGITS] == '\0';
}

struct files {
    char **names;
    size_t count;
    int current; /* -1: there is none */
};

static void free_files(struct files *files) {
    for (size_t i = 0; i < files->count; i++)
        free(files->names[i]);
    free(files->names);
    pin_close_fd(&files->current);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool list_archives(const struct pin_audit *audit, struct files *files, struct pin_error *err) {
    PIN_CLOSE int copy = openat(audit->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *entry;
    if (dir == NULL)
        return pin_fail_errno(err, "list the audit log's directory");
    (void)pin_steal_fd(&copy);
    while ((entry = pin_next_entry(dir, err)) != NULL) {
        if (!is_archive(audit, entry->d_name))
            continue;
        char **more = reallocarray(files->names, files->count + 1, sizeof(*more));
        if (more == NULL)
            abort();
        files->names = more;
        if ((files->names[files->count++] = strdup(entry->d_name)) == NULL)
            abort();
    }
    (void)closedir(dir);
    if (files->count > 0)
        qsort(files->names, files->count, sizeof(*files->names), by_name);
    return !pin_is_set(err);
}

/* What belongs together is found under the lock; it is read without, so that no run has to wait. */
static bool find_files(const struct pin_audit *audit, struct files *files, uint64_t *size,
                       struct pin_audit_head *head, struct pin_error *err) {
    struct pin_error missing = {0};
    struct stat facts = {0};
    if (!pin_audit_lock(audit->head, false, err))
        return false;
    bool ok = pin_audit_head_read(audit->head, head, err) && list_archives(audit, files, err);
    files->current = pin_private_file(audit->dir, audit->name, O_RDONLY, &missing);
    if (files->current >= 0 && fstat(files->current, &facts) != 0)
        ok = ok && pin_fail_errno(err, "look at the audit log");
    pin_audit_unlock(audit->head);
    if (ok && files->current < 0 && missing.os_errno != ENOENT) {
        *err = missing;
        return false;
    }
    *size = (uint64_t)facts.st_size;
    return ok;
}

struct reading {
    pin_audit_on_line *on_line;
    void *self;
    bool stopped;
    bool is_torn; /* the last line that was read has no end */
};

static bool read_lines(struct reading *reading, const char *file, struct pin_audit_lines *lines,
                       struct pin_error *err) {
    for (uint64_t number = 1; !reading->stopped; number++) {
        const char *line;
        size_t size;
        enum pin_audit_line kind = pin_audit_lines_next(lines, &line, &size, err);
        if (kind == PIN_AUDIT_LINE_END || kind == PIN_AUDIT_LINE_FAILED)
            return kind == PIN_AUDIT_LINE_END;
        reading->is_torn = kind == PIN_AUDIT_LINE_TORN;
        reading->stopped = !reading->on_line(reading->self, file, number, line, size);
    }
    return true;
}

static bool read_file(struct reading *reading, const char *file, int fd, uint64_t limit,
                      struct pin_error *err) {
    struct pin_audit_lines *lines = pin_audit_lines_new(fd, limit);
    if (lines == NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to read the audit log");
    bool ok = read_lines(reading, file, lines, err);
    pin_audit_lines_free(lines);
    return ok;
}

static bool read_all(struct pin_audit *audit, struct reading *reading, struct pin_audit_head *head,
                     struct pin_error *err) {
    struct files files = {.current = -1};
    uint64_t size = 0;
    bool ok = find_files(audit, &files, &size, head, err);
    for (size_t i = 0; ok && i < files.count; i++) {
        PIN_CLOSE int fd = pin_private_file(audit->dir, files.names[i], O_RDONLY, err);
        ok = fd >= 0 && read_file(reading, files.names[i], fd, UINT64_MAX >> 1, err);
    }
    if (ok && files.current >= 0)
        ok = read_file(reading, audit->name, files.current, size, err);
    free_files(&files);
    return ok;
}

bool pin_audit_each(struct pin_audit *audit, pin_audit_on_line *on_line, void *self,
                    struct pin_audit_head *head, struct pin_error *err) {
    struct reading reading = {.on_line = on_line, .self = self};
    return read_all(audit, &reading, head, err);
}

static bool verify_line(void *self, const char *file, uint64_t number, const char *line, size_t size) {
    pin_audit_verifier_line(self, file, number, line, size);
    return true;
}

bool pin_audit_verify(struct pin_audit *audit, struct pin_audit_verifier *verifier,
                      struct pin_audit_head *head, struct pin_error *err) {
    struct reading reading = {.on_line = verify_line, .self = verifier};
    if (!read_all(audit, &reading, head, err))
        return false;
    verifier->is_torn = reading.is_torn;
    pin_audit_verifier_end(verifier, audit->name, head);
    return true;
}
