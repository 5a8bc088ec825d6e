/* A disk that takes as long as another one would: a model of its arms or flash channels in front of
 * a file that is faster than both.
 *
 *   model_disk serve IMAGE FOLDER      mounts FOLDER with three files and goes to the background:
 *       disk       the image; each read, write and flush ends when the model says so
 *       profile    takes NAME=VALUE words, one device; without any, all is done at once
 *       counters   what was done so far, a NAME=VALUE a line
 *   model_disk simulate NAME=VALUE...  runs a load on the model alone, in no time, and prints its
 *       throughput and latencies: what a load on the file has to show
 *
 * Seconds and bytes throughout. The model:
 *
 *   - An operation is cut into pieces of stripe_bytes, which lie on units (arms or channels) by
 *     turns. With copies a write goes to all units of a mirror, a read to the one
 *     that has just read what lies before it, else to the least busy one, else by turns.
 *   - With parity, pieces and their parity lie as in RAID5 (left-symmetric). A write first reads
 *     either what it overwrites, or the rest of its row, whichever is less, and then writes data
 *     and parity. Writes to one row wait for each other. What was read or written in the last
 *     cached_rows rows, of 4 KiB a unit, is not read again.
 *   - A unit takes its next piece among the first `queue` that wait: the one that it reaches first.
 *     A piece costs positioning and bytes / unit_bytes_per_s.
 *   - Positioning of an arm: seek_min_s + (seek_full_s - seek_min_s) * sqrt(distance / size), then
 *     the wait until the place comes round, turn_s a turn. The disk is as large as the image: data
 *     that fill it are spread over the whole stroke. What follows on the last read costs nothing,
 *     since a disk reads ahead; what follows on the last write does if it comes in time.
 *   - Positioning of a channel: read_s, write_s, or random_write_s for the first piece of a write
 *     that follows on none of the last ones: flash that is full moves other data first.
 *   - All units share a bus: bus_s an operation and bus_bytes_per_s; before a write, after a read.
 *   - A cache of cache_bytes takes writes in cache_s. Units destage it when idle, and by turns with
 *     reads. A flush waits for what the cache holds, unless cache_kept: a battery makes it safe.
 *     A flush takes flush_s beside.
 *
 * In `serve` the model runs in its own time, which is the clock's, so a timer that comes late delays
 * an answer and not the operations behind it. path_s is what the way to and from this program takes:
 * operations count as having arrived so much earlier.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *format, ...) {
    va_list words;
    va_start(words, format);
    vfprintf(stderr, format, words);
    va_end(words);
    fputc('\n', stderr);
    exit(2);
}

/* ---- Profiles ---------------------------------------------------------------------------- */

struct profile {
    double units, copies, parity, stripe_bytes, cached_rows, queue;
    double seek_min_s, seek_full_s, turn_s;
    double read_s, write_s, random_write_s;
    double unit_bytes_per_s, bus_s, bus_bytes_per_s;
    double cache_bytes, cache_s, cache_kept, flush_s;
    double path_s;
};

static const struct field {
    const char *name;
    size_t offset;
} FIELDS[] = {
#define FIELD(name) {#name, offsetof(struct profile, name)}
    FIELD(units),          FIELD(copies),      FIELD(parity),           FIELD(stripe_bytes),
    FIELD(cached_rows),    FIELD(queue),       FIELD(seek_min_s),       FIELD(seek_full_s),
    FIELD(turn_s),         FIELD(read_s),
    FIELD(write_s),        FIELD(random_write_s), FIELD(unit_bytes_per_s), FIELD(bus_s),
    FIELD(bus_bytes_per_s), FIELD(cache_bytes), FIELD(cache_s),         FIELD(cache_kept),
    FIELD(flush_s),        FIELD(path_s),
#undef FIELD
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof *FIELDS, MAX_UNITS = 64 };
/* Linux md handles a write to RAID5 by rows of a page on each disk. */
enum { ROW_BYTES = 4096, MOST_ROWS = 4096 };

static double *field_of(struct profile *of, size_t index) {
    return (double *)((char *)of + FIELDS[index].offset);
}

/* Sets a field by a word NAME=VALUE; returns whether there is such a field and the value fits. */
static bool set_field(struct profile *of, const char *word) {
    const char *equals = strchr(word, '=');
    for (size_t i = 0; equals && i < FIELD_COUNT; i++) {
        size_t length = strlen(FIELDS[i].name);
        if (length != (size_t)(equals - word) || strncmp(word, FIELDS[i].name, length)) continue;
        char *end;
        double value = strtod(equals + 1, &end);
        if (*end || end == equals + 1 || !isfinite(value) || value < 0) return false;
        *field_of(of, i) = value;
        return true;
    }
    return false;
}

static bool is_possible_parity(const struct profile *of) {
    if (!of->parity) return !of->cached_rows;
    return of->parity == 1 && of->copies == 1 && of->units >= 3 && of->units < MAX_UNITS &&
           fmod(of->stripe_bytes, ROW_BYTES) == 0 && of->cached_rows <= MOST_ROWS &&
           !of->cache_bytes;
}

/* Returns whether the model can run it; one without units takes no time. */
static bool is_possible(const struct profile *of) {
    if (!of->units) return true;
    int units = (int)of->units, copies = (int)of->copies;
    return units <= MAX_UNITS && units == of->units && copies >= 1 && copies == of->copies &&
           units % copies == 0 && is_possible_parity(of) && of->stripe_bytes >= 512 &&
           of->queue >= 1 && of->seek_full_s >= of->seek_min_s &&
           (of->seek_full_s == 0 || of->turn_s > 0);
}

/* ---- The model --------------------------------------------------------------------------- */

enum kind { READ, WRITE, FLUSH };

struct op {
    enum kind kind;
    int64_t offset, bytes;
    double arrived;
    int pieces_left;
    bool cached;     /* answered already: its pieces are destaged */
    uint64_t epoch;  /* of a flush: it waits for what was cached before */
    uint64_t unique; /* of the kernel's request */
    struct op *next; /* in the line of writes that wait for room in the cache, or of flushes */
};

/* A write to a range of a row of RAID5, in all of which the same units are written. */
struct row_write {
    struct op *op;
    int64_t at, bytes;     /* on each of its units */
    uint64_t data, parity; /* these units, a bit each */
    bool is_random;
    enum { WAITS, READS, WRITES } stage;
    int pieces_left; /* of the stage */
    struct row_write *next;
};

struct piece {
    struct op *op;
    struct row_write *of_row; /* what it is a part of, in RAID5 */
    bool is_read;
    int64_t at, bytes; /* on its unit */
    uint64_t epoch;
    bool is_random; /* the first piece of a write that follows on none */
    struct piece *next;
};

struct line {
    struct piece *first, **end;
    int length;
};

struct unit {
    struct line waiting, destaging;
    struct piece *served;
    double free_at, phase;
    int64_t head, read_end;
    bool destage_next;
    int read_last; /* of the first of a mirror: which of its units */
};

enum event_kind { UNIT_DONE, BUS_DONE, ANSWERED };

struct event {
    double at;
    uint64_t number; /* of two at one time the earlier made comes first */
    enum event_kind kind;
    void *of;
};

enum { STREAMS = 8 };

struct known_row {
    int64_t number;
    uint64_t units, used; /* a bit for each unit whose page is known, and when */
};

static struct {
    struct profile profile;
    int64_t size;
    struct unit units[MAX_UNITS];
    double bus_free_at, cached_bytes;
    struct op *roomless, **roomless_end, *flushes;
    uint64_t epoch, pieces_cached;
    struct row_write *row_writes; /* in the order in which they came */
    struct known_row rows[MOST_ROWS];
    uint64_t rows_used;
    int64_t write_ends[STREAMS];
    int write_stream;
    struct event *events;
    size_t event_count, event_room;
    uint64_t event_number;
    void (*answer)(struct op *op, double at);
    double busy_s; /* of all units together */
} model;

static void reset_units(void) {
    for (int i = 0; i < MAX_UNITS; i++) {
        struct unit *unit = &model.units[i];
        memset(unit, 0, sizeof *unit);
        unit->waiting.end = &unit->waiting.first;
        unit->destaging.end = &unit->destaging.first;
        unit->phase = fmod(i * 0.6180339887498949, 1.0); /* spindles do not turn in step */
        unit->read_end = -1;
    }
    for (int i = 0; i < STREAMS; i++) model.write_ends[i] = -1;
    model.roomless_end = &model.roomless;
    for (int i = 0; i < MOST_ROWS; i++) model.rows[i] = (struct known_row){.number = -1};
}

static void *room_for(size_t bytes) {
    void *found = calloc(1, bytes);
    if (!found) fail("model_disk has no memory left");
    return found;
}

static bool before(const struct event *a, const struct event *b) {
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

static void push_event(double at, enum event_kind kind, void *of) {
    if (model.event_count == model.event_room) {
        model.event_room = model.event_room ? 2 * model.event_room : 256;
        model.events = realloc(model.events, model.event_room * sizeof *model.events);
        if (!model.events) fail("model_disk has no memory left");
    }
    struct event event = {at, model.event_number++, kind, of};
    size_t i = model.event_count++;
    for (; i && before(&event, &model.events[(i - 1) / 2]); i = (i - 1) / 2)
        model.events[i] = model.events[(i - 1) / 2];
    model.events[i] = event;
}

static struct event pop_event(void) {
    struct event first = model.events[0], last = model.events[--model.event_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < model.event_count; i = child) {
        if (child + 1 < model.event_count && before(&model.events[child + 1], &model.events[child]))
            child++;
        if (!before(&model.events[child], &last)) break;
        model.events[i] = model.events[child];
    }
    model.events[i] = last;
    return first;
}

static double next_event_at(void) { return model.event_count ? model.events[0].at : INFINITY; }

static void append(struct line *line, struct piece *piece) {
    *line->end = piece;
    line->end = &piece->next;
    line->length++;
}

static struct piece *take_out(struct line *line, struct piece **link) {
    struct piece *piece = *link;
    *link = piece->next;
    if (line->end == &piece->next) line->end = link;
    piece->next = NULL;
    line->length--;
    return piece;
}

/* Returns how many units, or mirrors of units, the data are spread over. */
static int groups(void) {
    return (int)(model.profile.units / model.profile.copies - model.profile.parity);
}

/* Returns how long a unit takes from `at` until it can transfer a piece. */
static double positioning_s(const struct unit *unit, const struct piece *piece, double at) {
    const struct profile *p = &model.profile;
    bool is_read = piece->is_read;
    double flash_s = is_read ? p->read_s : piece->is_random ? p->random_write_s : p->write_s;
    if (!p->turn_s) return flash_s;
    if (is_read && piece->at == unit->read_end) return flash_s;
    double seek_s = 0;
    if (piece->at != unit->head) {
        double share = llabs(piece->at - unit->head) / ((double)model.size / groups());
        seek_s = p->seek_min_s + (p->seek_full_s - p->seek_min_s) * sqrt(fmin(share, 1));
    }
    double track = p->unit_bytes_per_s * p->turn_s;
    double turned = (at + seek_s) / p->turn_s + unit->phase;
    double wait = fmod(piece->at / track - turned, 1.0);
    if (wait < 0) wait += 1;
    if (wait > 1 - 1e-6) wait = 0; /* it is just there: rounding made it a turn too late */
    return flash_s + seek_s + wait * p->turn_s;
}

/* Starts the next piece of a unit that is idle, if one waits. */
static void start_next(struct unit *unit, double now) {
    if (unit->served) return;
    bool destages = unit->destaging.length && (!unit->waiting.length || unit->destage_next);
    struct line *line = destages ? &unit->destaging : &unit->waiting;
    if (!line->length) return;
    unit->destage_next = !destages;
    double at = fmax(unit->free_at, now), best_s = INFINITY;
    struct piece **best = &line->first, **link = &line->first;
    for (int i = 0; i < (int)model.profile.queue && *link; i++, link = &(*link)->next) {
        double reached_s = positioning_s(unit, *link, at);
        if (reached_s < best_s) best_s = reached_s, best = link;
    }
    struct piece *piece = unit->served = take_out(line, best);
    double service_s = best_s + piece->bytes / model.profile.unit_bytes_per_s;
    model.busy_s += service_s;
    unit->free_at = at + service_s;
    unit->head = piece->at + piece->bytes;
    unit->read_end = piece->is_read ? unit->head : -1;
    push_event(unit->free_at, UNIT_DONE, unit);
}

static int busy(const struct unit *unit) {
    return unit->waiting.length + unit->destaging.length + !!unit->served;
}

static struct unit *reader_of(struct unit *mirror, int copies, int64_t at) {
    for (int i = 0; i < copies; i++)
        if (mirror[i].read_end == at) return &mirror[i];
    int best = (mirror->read_last + 1) % copies;
    for (int i = 2; i <= copies; i++) {
        int other = (mirror->read_last + i) % copies;
        if (busy(&mirror[other]) < busy(&mirror[best])) best = other;
    }
    mirror->read_last = best;
    return &mirror[best];
}

static void enqueue(struct unit *unit, const struct piece *like, double now) {
    struct piece *piece = room_for(sizeof *piece);
    *piece = *like;
    ++*(piece->of_row ? &piece->of_row->pieces_left : &piece->op->pieces_left);
    model.pieces_cached += piece->op->cached;
    append(piece->op->cached ? &unit->destaging : &unit->waiting, piece);
    start_next(unit, now);
}

/* Returns whether a write follows on none of the last ones, and remembers where it ends. */
static bool is_random(const struct op *op) {
    int64_t end = op->offset + op->bytes;
    for (int i = 0; i < STREAMS; i++) {
        if (model.write_ends[i] == op->offset) {
            model.write_ends[i] = end;
            return false;
        }
    }
    model.write_ends[model.write_stream++ % STREAMS] = end;
    return true;
}

/* ---- RAID5, as Linux md has it ----------------------------------------------------------- */

/* Returns the place of a row among those that are known, the longest unused one's if it is new. */
static struct known_row *known_row(int64_t number) {
    struct known_row *found = model.rows;
    for (int i = 0; i < (int)model.profile.cached_rows; i++) {
        struct known_row *row = &model.rows[i];
        if (row->number == number || row->used < found->used) found = row;
        if (row->number == number) break;
    }
    if (found->number != number) *found = (struct known_row){.number = number};
    found->used = ++model.rows_used;
    return found;
}

/* Returns the units whose bytes are known all over a range. */
static uint64_t known_units(int64_t at, int64_t bytes) {
    uint64_t known = model.profile.cached_rows ? UINT64_MAX : 0;
    for (int64_t row = at / ROW_BYTES; known && row * ROW_BYTES < at + bytes; row++)
        known &= known_row(row)->units;
    return known;
}

static void learn_units(int64_t at, int64_t bytes, uint64_t units) {
    if (!model.profile.cached_rows) return;
    for (int64_t row = at / ROW_BYTES; row * ROW_BYTES < at + bytes; row++)
        known_row(row)->units |= units;
}

/* Returns the units that a write has to read: what it overwrites with its parity, or the rest of
 * the row, by which of them are fewer; the rest if they are as many. A page that is written in part
 * is read too. */
static uint64_t units_to_read(const struct row_write *of) {
    bool whole = of->at % ROW_BYTES == 0 && of->bytes % ROW_BYTES == 0;
    uint64_t all = (1ull << (int)model.profile.units) - 1;
    uint64_t unknown = ~known_units(of->at, of->bytes);
    uint64_t old = (of->data | of->parity) & unknown;
    uint64_t rest = all & ~of->parity & ~(whole ? of->data : 0) & unknown;
    return __builtin_popcountll(old) < __builtin_popcountll(rest) ? old : rest;
}

static void enqueue_row(struct row_write *of, uint64_t units, struct piece like, double now) {
    like.op = of->op;
    like.of_row = of;
    for (int i = 0; i < (int)model.profile.units; i++)
        if (units >> i & 1) enqueue(&model.units[i], &like, now);
}

static void write_row(struct row_write *of, double now) {
    of->stage = WRITES;
    struct piece like = {.at = of->at, .bytes = of->bytes, .is_random = of->is_random};
    enqueue_row(of, of->data | of->parity, like, now);
}

static void start_row(struct row_write *of, double now) {
    uint64_t read = units_to_read(of);
    learn_units(of->at, of->bytes, read | of->data | of->parity);
    if (!read) return write_row(of, now);
    of->stage = READS;
    int64_t first = of->at / ROW_BYTES * ROW_BYTES;
    int64_t pages = (of->at + of->bytes - first + ROW_BYTES - 1) / ROW_BYTES;
    struct piece like = {.is_read = true, .at = first, .bytes = pages * ROW_BYTES};
    enqueue_row(of, read, like, now);
}

/* Starts the writes that wait for no earlier one to the same rows. */
static void start_rows(double now) {
    for (struct row_write *of = model.row_writes; of; of = of->next) {
        if (of->stage != WAITS) continue;
        const struct row_write *other = model.row_writes;
        while (other != of && (other->at / ROW_BYTES > (of->at + of->bytes - 1) / ROW_BYTES ||
                               of->at / ROW_BYTES > (other->at + other->bytes - 1) / ROW_BYTES))
            other = other->next;
        if (other == of) start_row(of, now);
    }
}

static void row_piece_done(struct row_write *of, double now) {
    if (--of->pieces_left) return;
    if (of->stage == READS) return write_row(of, now);
    of->op->pieces_left--;
    struct row_write **link = &model.row_writes;
    while (*link != of) link = &(*link)->next;
    *link = of->next;
    free(of);
    start_rows(now);
}

/* Returns which unit has the parity of a row of chunks; its first data are on the one behind it. */
static int parity_unit(int64_t row) {
    int units = (int)model.profile.units;
    return units - 1 - (int)(row % units);
}

static int data_unit(int64_t row, int64_t number) {
    return (int)((parity_unit(row) + 1 + number) % (int64_t)model.profile.units);
}

/* Writes from byte to byte of a row of chunks: up to three ranges of it, as it begins and ends
 * within chunks. */
static void write_chunks(struct op *op, int64_t row, int64_t from, int64_t to, bool is_random) {
    int64_t chunk = (int64_t)model.profile.stripe_bytes, begin = from % chunk, end = to % chunk;
    int64_t edges[] = {0, begin < end ? begin : end, begin < end ? end : begin, chunk};
    struct row_write **last = &model.row_writes;
    while (*last) last = &(*last)->next;
    for (int i = 0; i < 3; i++) {
        uint64_t data = 0;
        for (int64_t number = 0; number < groups(); number++)
            if (number * chunk + edges[i] >= from && number * chunk + edges[i + 1] <= to)
                data |= 1ull << data_unit(row, number);
        if (edges[i] == edges[i + 1] || !data) continue;
        struct row_write *of = *last = room_for(sizeof *of);
        *of = (struct row_write){.op = op, .data = data, .is_random = is_random};
        of->at = row * chunk + edges[i];
        of->bytes = edges[i + 1] - edges[i];
        of->parity = 1ull << parity_unit(row);
        op->pieces_left++;
        last = &of->next;
    }
}

static void write_with_parity(struct op *op, double now) {
    int64_t row_bytes = (int64_t)model.profile.stripe_bytes * groups();
    int64_t at = op->offset, end = op->offset + op->bytes;
    bool random = is_random(op);
    op->pieces_left = 0;
    for (int64_t row = at / row_bytes; row * row_bytes < end; row++) {
        int64_t begins = row * row_bytes;
        int64_t from = at > begins ? at - begins : 0;
        int64_t to = end < begins + row_bytes ? end - begins : row_bytes;
        write_chunks(op, row, from, to, random);
    }
    start_rows(now);
}

/* ---- All arrays -------------------------------------------------------------------------- */

/* Returns the first of the units that have a piece. */
static struct unit *holder_of(int64_t number) {
    if (model.profile.parity)
        return &model.units[data_unit(number / groups(), number % groups())];
    return &model.units[number % groups() * (int)model.profile.copies];
}

static void to_units(struct op *op, double now) {
    const struct profile *p = &model.profile;
    if (p->parity && op->kind == WRITE) return write_with_parity(op, now);
    int64_t stripe = (int64_t)p->stripe_bytes, left = op->bytes, at = op->offset;
    int copies = (int)p->copies;
    struct piece like = {.op = op, .is_read = op->kind == READ, .epoch = model.epoch};
    like.is_random = op->kind == WRITE && is_random(op);
    /* Counted as one more until all are made: the first could be done before the last is there. */
    for (op->pieces_left = 1; left; like.is_random = false) {
        int64_t number = at / stripe, within = at % stripe;
        struct unit *first = holder_of(number);
        like.bytes = stripe - within < left ? stripe - within : left;
        like.at = number / groups() * stripe + within;
        if (op->kind == READ) {
            enqueue(reader_of(first, copies, like.at), &like, now);
        } else {
            for (int i = 0; i < copies; i++) enqueue(&first[i], &like, now);
        }
        at += like.bytes;
        left -= like.bytes;
    }
    op->pieces_left--;
}

static void onto_bus(struct op *op, double now) {
    const struct profile *p = &model.profile;
    double takes_s = p->bus_s + (p->bus_bytes_per_s ? op->bytes / p->bus_bytes_per_s : 0);
    model.bus_free_at = fmax(model.bus_free_at, now) + takes_s;
    push_event(model.bus_free_at, BUS_DONE, op);
}

/* The caller's operation is answered; what destages is a copy that nobody waits for. */
static void into_cache(struct op *op, double now) {
    struct op *kept = room_for(sizeof *kept);
    *kept = *op;
    kept->cached = true;
    model.cached_bytes += op->bytes;
    push_event(now + model.profile.cache_s, ANSWERED, op);
    to_units(kept, now);
}

static void write_arrived(struct op *op, double now) {
    double room = model.profile.cache_bytes;
    if (room < op->bytes) {
        to_units(op, now);
    } else if (model.roomless || model.cached_bytes + op->bytes > room) {
        op->next = NULL;
        *model.roomless_end = op;
        model.roomless_end = &op->next;
    } else {
        into_cache(op, now);
    }
}

static void flush_arrived(struct op *op, double now) {
    if (model.profile.cache_kept || !model.pieces_cached) {
        push_event(now + model.profile.flush_s, ANSWERED, op);
        return;
    }
    op->epoch = model.epoch++;
    op->pieces_left = (int)model.pieces_cached;
    op->next = model.flushes;
    model.flushes = op;
}

static void destaged(struct op *op, uint64_t epoch, double now) {
    model.pieces_cached--;
    for (struct op **link = &model.flushes; *link;) {
        struct op *flush = *link;
        if (epoch <= flush->epoch && !--flush->pieces_left) {
            *link = flush->next;
            push_event(now + model.profile.flush_s, ANSWERED, flush);
        } else {
            link = &flush->next;
        }
    }
    if (op->pieces_left) return;
    model.cached_bytes -= op->bytes;
    free(op);
    while (model.roomless &&
           model.cached_bytes + model.roomless->bytes <= model.profile.cache_bytes) {
        struct op *first = model.roomless;
        model.roomless = first->next;
        if (!model.roomless) model.roomless_end = &model.roomless;
        into_cache(first, now);
    }
}

static void unit_done(struct unit *unit, double now) {
    struct piece *piece = unit->served;
    struct op *op = piece->op;
    unit->served = NULL;
    if (piece->of_row) row_piece_done(piece->of_row, now);
    else op->pieces_left--;
    if (op->cached) {
        destaged(op, piece->epoch, now);
    } else if (!op->pieces_left) {
        if (op->kind == READ) onto_bus(op, now);
        else push_event(now, ANSWERED, op);
    }
    free(piece);
    start_next(unit, now);
}

static void submit(struct op *op, double now) {
    op->arrived = now;
    op->cached = false;
    if (!model.profile.units) push_event(now, ANSWERED, op);
    else if (op->kind == FLUSH) flush_arrived(op, now);
    else if (op->kind == READ) to_units(op, now);
    else onto_bus(op, now);
}

/* Runs the model up to and including its next event. */
static void step(void) {
    struct event event = pop_event();
    if (event.kind == UNIT_DONE) {
        unit_done(event.of, event.at);
    } else if (event.kind == BUS_DONE && ((struct op *)event.of)->kind == WRITE) {
        write_arrived(event.of, event.at);
    } else {
        model.answer(event.of, event.at);
    }
}

/* ---- simulate ---------------------------------------------------------------------------- */

static struct {
    double size_bytes, span_bytes, block_bytes, depth, operations, read_share, in_order;
    double rate_per_s; /* of arrivals at random; 0 keeps `depth` in flight instead */
    double seed;
} load = {1e9, 1e9, 16384, 1, 20000, 1, 0, 0, 1};

static const struct load_field {
    const char *name;
    double *value;
} LOAD_FIELDS[] = {
    {"size_bytes", &load.size_bytes},   {"span_bytes", &load.span_bytes},
    {"block_bytes", &load.block_bytes}, {"depth", &load.depth},
    {"operations", &load.operations},   {"read_share", &load.read_share},
    {"in_order", &load.in_order},       {"rate_per_s", &load.rate_per_s},
    {"seed", &load.seed},
};

static bool set_load_field(const char *word) {
    for (size_t i = 0; i < sizeof LOAD_FIELDS / sizeof *LOAD_FIELDS; i++) {
        size_t length = strlen(LOAD_FIELDS[i].name);
        if (strncmp(word, LOAD_FIELDS[i].name, length) || word[length] != '=') continue;
        char *end;
        double value = strtod(word + length + 1, &end);
        if (*end || end == word + length + 1 || !isfinite(value) || value < 0) return false;
        *LOAD_FIELDS[i].value = value;
        return true;
    }
    return false;
}

static uint64_t random_state;

static double drawn(void) { /* splitmix64, from 0 to less than 1 */
    uint64_t z = random_state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static struct {
    double *latencies, first_s, last_s, total_s, squares;
    size_t started, ended;
    int64_t place;
} simulated;

static void start_one(double at) {
    struct op *op = room_for(sizeof *op);
    int64_t blocks = (int64_t)(load.span_bytes / load.block_bytes);
    int64_t block = load.in_order ? simulated.place++ % blocks : (int64_t)(drawn() * (double)blocks);
    op->kind = drawn() < load.read_share ? READ : WRITE;
    op->bytes = (int64_t)load.block_bytes;
    op->offset = block * op->bytes;
    simulated.started++;
    submit(op, at);
}

static void note_simulated(struct op *op, double at) {
    double latency = at - op->arrived;
    simulated.latencies[simulated.ended++] = latency;
    simulated.total_s += latency;
    simulated.squares += latency * latency;
    simulated.last_s = at;
    free(op);
    if (!load.rate_per_s && simulated.started < (size_t)load.operations) start_one(at);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(double share) {
    size_t place = (size_t)(share * (double)simulated.ended);
    return simulated.latencies[place < simulated.ended ? place : simulated.ended - 1];
}

static int simulate(char **words) {
    for (; *words; words++)
        if (!set_field(&model.profile, *words) && !set_load_field(*words))
            fail("model_disk: '%s' is no NAME=VALUE that it knows", *words);
    if (!is_possible(&model.profile) || !model.profile.units)
        fail("model_disk: there is no such device: its values contradict themselves");
    if (load.operations < 1 || load.depth < 1 || load.span_bytes < load.block_bytes ||
        load.block_bytes < 512 || load.size_bytes < load.span_bytes)
        fail("model_disk: there is no such load: its values contradict themselves");
    reset_units();
    model.size = (int64_t)load.size_bytes;
    model.answer = note_simulated;
    random_state = (uint64_t)load.seed;
    simulated.latencies = calloc((size_t)load.operations, sizeof(double));
    if (!simulated.latencies) fail("model_disk has no memory left");
    double arrival = 0;
    if (!load.rate_per_s)
        while (simulated.started < (size_t)fmin(load.depth, load.operations)) start_one(0);
    while (simulated.ended < (size_t)load.operations) {
        if (load.rate_per_s && simulated.started < (size_t)load.operations &&
            arrival <= next_event_at()) {
            start_one(arrival);
            arrival -= log(1 - drawn()) / load.rate_per_s;
        } else {
            step();
        }
    }
    double count = (double)simulated.ended;
    qsort(simulated.latencies, simulated.ended, sizeof(double), ascending);
    printf("per_s=%.9g\nmean_s=%.9g\nmean_square_s2=%.9g\np50_s=%.9g\np95_s=%.9g\np99_s=%.9g\n"
           "busy_share=%.9g\n",
           count / simulated.last_s, simulated.total_s / count, simulated.squares / count,
           percentile(0.50), percentile(0.95), percentile(0.99),
           model.busy_s / simulated.last_s / model.profile.units);
    return 0;
}

/* ---- serve: the kernel's FUSE protocol, without a library -------------------------------- */

enum { ROOT = FUSE_ROOT_ID, DISK, PROFILE, COUNTERS, NODES };
static const char *NAMES[NODES] = {[DISK] = "disk", [PROFILE] = "profile", [COUNTERS] = "counters"};
enum { MOST_BYTES = 1 << 20, ROOM = MOST_BYTES + 65536 };

static struct {
    int fuse, image;
    char *request, *answer;
    double reads, writes, flushes, read_bytes, written_bytes;
    double late_s, waits; /* how much later than meant answers went out, and how many */
    double answered_at;   /* the last of them, in the model's time */
    size_t in_flight;
} server;

static double clock_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void reply(uint64_t unique, int error, const void *body, size_t bytes) {
    struct fuse_out_header header = {(uint32_t)(sizeof header + bytes), -error, unique};
    struct iovec parts[] = {{&header, sizeof header}, {(void *)body, bytes}};
    /* ENOENT: the request was interrupted, and nobody waits any more. */
    if (writev(server.fuse, parts, bytes ? 2 : 1) < 0 && errno != ENOENT && errno != ENODEV)
        perror("model_disk: answering");
}

static ssize_t whole_read(char *into, size_t bytes, int64_t offset) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(server.image, into + done, bytes - done, offset + (int64_t)done);
        if (got < 0) return -errno;
        if (!got) return (ssize_t)done;
        done += (size_t)got;
    }
    return (ssize_t)bytes;
}

/* The image is read when the model is through with it, and was written when the request came: so a
 * request needs no room of its own while it waits. */
static void answer_request(struct op *op, double at) {
    server.late_s += clock_s() - at;
    server.waits++;
    server.answered_at = at;
    server.in_flight--;
    if (op->kind == READ) {
        ssize_t got = whole_read(server.answer, (size_t)op->bytes, op->offset);
        reply(op->unique, got < 0 ? (int)-got : 0, server.answer, got < 0 ? 0 : (size_t)got);
    } else if (op->kind == WRITE) {
        struct fuse_write_out out = {.size = (uint32_t)op->bytes};
        reply(op->unique, 0, &out, sizeof out);
    } else {
        reply(op->unique, 0, NULL, 0);
    }
    free(op);
}

static void submit_request(enum kind kind, int64_t offset, int64_t bytes, uint64_t unique) {
    struct op *op = room_for(sizeof *op);
    op->kind = kind;
    op->offset = offset;
    op->bytes = bytes;
    op->unique = unique;
    double sent = clock_s() - model.profile.path_s;
    /* Who waits for each answer cannot have asked before the last one. */
    if (!server.in_flight) sent = fmax(sent, server.answered_at);
    server.in_flight++;
    submit(op, sent);
}

static size_t counters_text(char *into) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    return (size_t)sprintf(into,
                           "reads=%.0f\nwrites=%.0f\nflushes=%.0f\nread_bytes=%.0f\n"
                           "written_bytes=%.0f\nbusy_s=%.6f\nlate_s=%.6f\nanswers=%.0f\ncpu_s=%.6f\n",
                           server.reads, server.writes, server.flushes, server.read_bytes,
                           server.written_bytes, model.busy_s, server.late_s, server.waits, cpu_s);
}

static size_t profile_text(char *into) {
    size_t length = 0;
    for (size_t i = 0; i < FIELD_COUNT; i++)
        length += (size_t)sprintf(into + length, "%s=%.12g\n", FIELDS[i].name,
                                  *field_of(&model.profile, i));
    return length;
}

static void drop_pieces(struct piece *piece) {
    for (struct piece *next; piece; piece = next) {
        next = piece->next;
        if (!--piece->op->pieces_left) free(piece->op);
        free(piece);
    }
}

/* Ends what nobody waits for: the destaging of a cache, whose data is in the image already. */
static void drop_destaging(void) {
    for (struct unit *unit = model.units; unit < model.units + MAX_UNITS; unit++) {
        drop_pieces(unit->served);
        drop_pieces(unit->destaging.first);
    }
    model.event_count = 0;
    model.pieces_cached = 0;
    model.cached_bytes = 0;
}

/* Returns 0, or why the words are no profile. What is in flight is answered first. */
static int take_profile(char *words) {
    struct profile wanted = {0};
    for (char *word = strtok(words, " \n"); word; word = strtok(NULL, " \n"))
        if (!set_field(&wanted, word)) return EINVAL;
    if (!is_possible(&wanted)) return EINVAL;
    while (server.in_flight) {
        double wait_s = next_event_at() - clock_s();
        if (wait_s > 0) usleep((useconds_t)(1e6 * fmin(wait_s, 0.1)));
        else step();
    }
    drop_destaging();
    double busy_s = model.busy_s;
    model.profile = wanted;
    model.bus_free_at = 0;
    reset_units();
    model.busy_s = busy_s;
    return 0;
}

static struct fuse_attr attributes(uint64_t node) {
    struct fuse_attr found = {.ino = node, .nlink = 1, .blksize = 4096};
    found.mode = node == ROOT ? S_IFDIR | 0700 : S_IFREG | 0600;
    if (node == DISK) found.size = (uint64_t)model.size;
    found.blocks = found.size / 512;
    return found;
}

static void init(const struct fuse_in_header *head, const struct fuse_init_in *in) {
    struct fuse_init_out out = {
        .major = FUSE_KERNEL_VERSION,
        .minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor : FUSE_KERNEL_MINOR_VERSION,
        .max_readahead = in->max_readahead,
        .flags = in->flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES),
        .max_background = 512,
        .congestion_threshold = 512,
        .max_write = MOST_BYTES,
        .time_gran = 1,
        .max_pages = MOST_BYTES / 4096,
    };
    reply(head->unique, 0, &out, sizeof out);
}

static void lookup(const struct fuse_in_header *head, const char *name) {
    for (uint64_t node = DISK; node < NODES; node++) {
        if (strcmp(name, NAMES[node])) continue;
        struct fuse_entry_out out = {.nodeid = node, .attr_valid = 3600, .entry_valid = 3600,
                                     .attr = attributes(node)};
        reply(head->unique, 0, &out, sizeof out);
        return;
    }
    reply(head->unique, ENOENT, NULL, 0);
}

static void list(const struct fuse_in_header *head, const struct fuse_read_in *in) {
    char entries[NODES * (sizeof(struct fuse_dirent) + 16)] = {0};
    size_t length = 0;
    for (uint64_t node = in->offset ? NODES : DISK; node < NODES; node++) {
        struct fuse_dirent *entry = (struct fuse_dirent *)(entries + length);
        *entry = (struct fuse_dirent){node, node, (uint32_t)strlen(NAMES[node]), S_IFREG >> 12};
        memcpy(entry->name, NAMES[node], entry->namelen);
        length += FUSE_DIRENT_SIZE(entry);
    }
    reply(head->unique, 0, entries, length < in->size ? length : 0);
}

static void read_request(const struct fuse_in_header *head, const struct fuse_read_in *in) {
    if (head->nodeid == DISK) {
        int64_t left = model.size - (int64_t)in->offset;
        int64_t bytes = left < (int64_t)in->size ? left : (int64_t)in->size;
        if (bytes <= 0) return reply(head->unique, 0, NULL, 0);
        server.reads++;
        server.read_bytes += (double)bytes;
        return submit_request(READ, (int64_t)in->offset, bytes, head->unique);
    }
    char text[2048];
    size_t length = head->nodeid == PROFILE ? profile_text(text) : counters_text(text);
    size_t offset = in->offset < length ? in->offset : length;
    size_t bytes = in->size < length - offset ? in->size : length - offset;
    reply(head->unique, 0, text + offset, bytes);
}

static void write_request(const struct fuse_in_header *head, const struct fuse_write_in *in) {
    char *data = (char *)in + sizeof *in;
    struct fuse_write_out out = {.size = in->size};
    if (head->nodeid == PROFILE) {
        data[in->size] = 0; /* there is room behind the longest request */
        int error = take_profile(data);
        return reply(head->unique, error, &out, error ? 0 : sizeof out);
    }
    if (head->nodeid != DISK) return reply(head->unique, EACCES, NULL, 0);
    if ((int64_t)(in->offset + in->size) > model.size) return reply(head->unique, ENOSPC, NULL, 0);
    for (size_t done = 0; done < in->size;) {
        ssize_t put = pwrite(server.image, data + done, in->size - done,
                             (int64_t)(in->offset + done));
        if (put <= 0) return reply(head->unique, put ? errno : ENOSPC, NULL, 0);
        done += (size_t)put;
    }
    server.writes++;
    server.written_bytes += (double)in->size;
    submit_request(WRITE, (int64_t)in->offset, (int64_t)in->size, head->unique);
}

static void handle(const struct fuse_in_header *head) {
    const void *body = head + 1;
    switch (head->opcode) {
    case FUSE_INIT: return init(head, body);
    case FUSE_LOOKUP: return lookup(head, body);
    case FUSE_READ: return read_request(head, body);
    case FUSE_WRITE: return write_request(head, body);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: return; /* these have no answer */
    case FUSE_FSYNC:
        if (head->nodeid != DISK) return reply(head->unique, 0, NULL, 0);
        server.flushes++;
        return submit_request(FLUSH, 0, 0, head->unique);
    case FUSE_GETATTR:
    case FUSE_SETATTR: { /* what opens `profile` to write it truncates it first */
        struct fuse_attr_out out = {.attr_valid = 3600, .attr = attributes(head->nodeid)};
        return reply(head->unique, 0, &out, sizeof out);
    }
    case FUSE_READDIR: return list(head, body);
    case FUSE_OPENDIR:
    case FUSE_OPEN: {
        struct fuse_open_out out = {.open_flags = FOPEN_DIRECT_IO};
        return reply(head->unique, 0, &out, sizeof out);
    }
    case FUSE_STATFS: {
        struct fuse_statfs_out out = {.st = {.bsize = 4096, .namelen = 255, .frsize = 4096}};
        return reply(head->unique, 0, &out, sizeof out);
    }
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_DESTROY: return reply(head->unique, 0, NULL, 0);
    default: return reply(head->unique, ENOSYS, NULL, 0);
    }
}

/* Takes all requests that wait; returns whether the folder is still mounted. */
static bool take_requests(void) {
    for (;;) {
        ssize_t got = read(server.fuse, server.request, ROOM - 1);
        if (got > 0) handle((struct fuse_in_header *)server.request);
        else if (errno == EAGAIN) return true;
        else if (errno == ENODEV) return false;
        else if (errno != EINTR && errno != ENOENT) fail("model_disk: %s", strerror(errno));
    }
}

static void serve_until_unmounted(void) {
    for (;;) {
        double wait_s = next_event_at() - clock_s();
        if (wait_s > 0) {
            double whole = floor(fmin(wait_s, 3600));
            struct timespec wait = {(time_t)whole, (long)(1e9 * (fmin(wait_s, 3600) - whole))};
            struct pollfd fuse = {server.fuse, POLLIN, 0};
            ppoll(&fuse, 1, &wait, NULL);
        }
        if (!take_requests()) return;
        while (next_event_at() <= clock_s()) step();
    }
}

static int serve(const char *image, const char *folder) {
    struct stat found;
    server.image = open(image, O_RDWR);
    if (server.image < 0 || fstat(server.image, &found))
        fail("model_disk: %s: %s", image, strerror(errno));
    server.fuse = open("/dev/fuse", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (server.fuse < 0) fail("model_disk: /dev/fuse: %s", strerror(errno));
    char options[128];
    snprintf(options, sizeof options, "fd=%d,rootmode=40700,user_id=0,group_id=0", server.fuse);
    if (mount("model_disk", folder, "fuse", MS_NOSUID | MS_NODEV | MS_NOEXEC, options))
        fail("model_disk: mounting %s: %s", folder, strerror(errno));
    if (daemon(0, 0)) fail("model_disk: %s", strerror(errno));
    prctl(PR_SET_TIMERSLACK, 1);
    /* Both are refused in some containers: answers are a little later there, and path_s says so. */
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
    setpriority(PRIO_PROCESS, 0, -20);
    server.request = aligned_alloc(4096, ROOM);
    server.answer = aligned_alloc(4096, MOST_BYTES);
    if (!server.request || !server.answer) fail("model_disk has no memory left");
    model.size = found.st_size;
    model.answer = answer_request;
    reset_units();
    serve_until_unmounted();
    return 0;
}

int main(int count, char **words) {
    if (count >= 3 && !strcmp(words[1], "simulate")) return simulate(words + 2);
    if (count == 4 && !strcmp(words[1], "serve")) return serve(words[2], words[3]);
    fail("usage: model_disk serve IMAGE FOLDER | model_disk simulate NAME=VALUE...");
}
