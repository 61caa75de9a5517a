/* Copy plans by the shape of a transfer, as pega-tune measured them. C11, nothing to link.
 *
 *     const pega_tune_profile *profile = pega_tune_profile_for(&facts, false);
 *     pega_tune_question question = pega_tune_default_question(PEGA_TUNE_DIRECTION_H2D);
 *     static pega_tune_policy policy;
 *     if (profile && pega_tune_ask(profile, &question, &policy) == PEGA_TUNE_OK) {
 *         pega_tune_decision decision;
 *         pega_tune_decide(&policy, &(pega_tune_shape){.merged_ranges = 64, .total_bytes = 65536}, &decision);
 *     }
 *
 * Include it in one source file: every one that does has tables of its own. With PEGA_TUNE_SELF_TEST defined there is
 * pega_tune_failures(), which counts the test vectors that are answered wrongly. */
#ifndef PEGA_TUNE_POLICY_H
#define PEGA_TUNE_POLICY_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "costs are compared as doubles");

/* @WORDS */
/* @END */

/* A PCIe link; {0, 0} if unknown. */
typedef struct {
    uint32_t generation, width;
} pega_tune_link;

/* What a device is. NULL, or -1 in a number or a flag, where the host does not tell. */
typedef struct {
    const char *uuid; /* as CUDA has it; NULL if it does not matter which board it is */
    uint32_t compute_capability[2];
    uint32_t sm_count;
    uint32_t memory_gib;
    uint32_t copy_engines;
    const char *mig_slice; /* empty without MIG */
    const char *pci_device_id; /* vendor:device, lower-case hex */
    const char *pci_subsystem_id;
    pega_tune_link max_link; /* the widest and fastest that device and slot can train */
    const char *host_cpu;
    int32_t numa_distance;
    int iommu;
    int confidential;
} pega_tune_facts;

typedef struct {
    const char *profile_id;
    const char *created_at; /* ISO 8601 */
    bool published;         /* else a draft, which should decide nothing unless somebody looked at it */
    bool simulated;         /* of a device that does not exist */
    pega_tune_facts facts;
} pega_tune_profile;

/* Bounds on the copy kernel. */
typedef struct {
    uint32_t max_grid_blocks;
    uint64_t chunk_descriptors; /* 0 puts the whole transfer into one launch */
} pega_tune_kernel_options;

/* How to run one direction of a transfer; without a kernel variant is PEGA_TUNE_VARIANT_NONE, threads and options 0. */
typedef struct {
    pega_tune_backend backend;
    pega_tune_variant variant;
    uint32_t threads; /* of a CTA */
    pega_tune_kernel_options options;
    uint64_t chunk_bytes; /* 0 does not cut */
    int32_t stream_priority;
    pega_tune_completion completion;
    bool backpressure;
    uint32_t sm_partition; /* 0 leaves all SMs */
    bool prefer_overlap;
} pega_tune_copy_plan;

typedef struct {
    pega_tune_direction direction;
    pega_tune_objective objective;
    pega_tune_colocation colocation; /* PEGA_TUNE_COLOCATION_UNASKED: time-sliced if that was measured */
    pega_tune_runtime runtime;       /* plans that the caller can run */
    double budget;   /* stall that tail-bounded allows per burst, as a fraction of a decode step */
    double period_s; /* from one burst to the next; plans that take longer are passed over */
    double step_s;   /* undisturbed decode step; 0 takes the one that the profile was measured beside */
} pega_tune_question;

typedef struct {
    uint64_t merged_ranges; /* per direction */
    uint64_t total_bytes;   /* per direction */
    uint64_t host_runs;     /* runs that are adjacent on the host side; 0 if unknown */
    uint64_t alignment;     /* 1, 2, 4, 8 or 16; 0 if unknown */
    uint64_t pitch;         /* device stride in bytes of one arithmetic progression; 0 if there is none, or unknown */
} pega_tune_shape;

typedef struct {
    const pega_tune_copy_plan *load; /* NULL if only saves were asked for */
    const pega_tune_copy_plan *save; /* NULL if only loads were asked for */
    const char *profile;             /* id of the profile; NULL if the rule answers, for want of a table */
    double time_s, stall_s, completion_p99_s; /* expected; -1 where nothing was measured */
    uint64_t predicted_ranges, predicted_range_bytes; /* the shape that they are for; 0 outside what was measured */
    pega_tune_colocation colocation; /* beside what it was measured */
    pega_tune_hint hint;             /* what it supposes of the ranges, beside their number and size */
    pega_tune_evidence evidence;     /* what the claim about decode rests on */
    bool fused;                      /* both directions share a launch */
    bool budget_met;
} pega_tune_decision;

typedef enum {
    PEGA_TUNE_OK,
    PEGA_TUNE_BAD_WORD,
    PEGA_TUNE_BAD_NUMBER,
    PEGA_TUNE_BAD_SHAPE,
    PEGA_TUNE_BAD_HOST_RUNS,
    PEGA_TUNE_BAD_ALIGNMENT,
    PEGA_TUNE_BAD_PITCH,
    PEGA_TUNE_RUNTIME_LEFT_OUT
} pega_tune_status;

typedef struct {
    double costs[4]; /* time, stall, extra time, completion p99; -1 where not known */
    uint32_t burden;
    uint16_t load, save; /* plans */
    uint8_t fused, evidence;
} pega_tune_option_;

typedef struct {
    uint32_t colocation, hint, range_edges, rows, range_buckets, size_edges, columns, size_buckets, cells;
    uint64_t measured[6];
    double margin, step_s;
} pega_tune_table_;

/* @DATA */
/* @END */

enum { PEGA_TUNE_TIME_, PEGA_TUNE_STALL_, PEGA_TUNE_EXTRA_, PEGA_TUNE_COMPLETION_, PEGA_TUNE_BURDEN_ };

/* The answers to one question, whatever the shape. Threads may share it. Too large for most stacks. */
typedef struct {
    const pega_tune_table_ *tables[4]; /* by hint; NULL without one */
    uint32_t first[4];                 /* of the decisions of each */
    unsigned own, lent;                /* hints, as bits, with a table of the colocation, or of the idle device */
    pega_tune_decision decisions[PEGA_TUNE_MOST_CELLS_]; /* for shapes inside what was measured */
} pega_tune_policy;

static inline pega_tune_question pega_tune_default_question(pega_tune_direction direction) {
    pega_tune_question question = {
        direction, PEGA_TUNE_OBJECTIVE_BALANCED, PEGA_TUNE_COLOCATION_UNASKED, PEGA_TUNE_RUNTIME_FULL,
        PEGA_TUNE_DEFAULT_BUDGET, PEGA_TUNE_DEFAULT_PERIOD_S, 0};
    return question;
}

static inline bool pega_tune_same_text_(const char *one, const char *other) {
    return one && other ? strcmp(one, other) == 0 : one == other;
}

static inline bool pega_tune_unreal_(const char *uuid) {
    return uuid && (strncmp(uuid, "sim:", 4) == 0 || strncmp(uuid, "replay:", 7) == 0);
}

/* Whether a device is like the one that was measured; no real one is like a simulated one. An unknown link is taken
 * for the same. */
static inline bool pega_tune_matches(const pega_tune_profile *profile, const pega_tune_facts *facts) {
    const pega_tune_facts *own = &profile->facts;
    bool unreal = pega_tune_unreal_(own->uuid) || pega_tune_unreal_(facts->uuid);
    if (unreal && !pega_tune_same_text_(own->uuid, facts->uuid)) return false;
    bool known = own->max_link.generation && facts->max_link.generation;
    if (known && (own->max_link.generation != facts->max_link.generation ||
                  own->max_link.width != facts->max_link.width)) return false;
    return own->compute_capability[0] == facts->compute_capability[0] &&
           own->compute_capability[1] == facts->compute_capability[1] && own->sm_count == facts->sm_count &&
           own->memory_gib == facts->memory_gib && own->copy_engines == facts->copy_engines &&
           pega_tune_same_text_(own->mig_slice, facts->mig_slice ? facts->mig_slice : "") &&
           pega_tune_same_text_(own->pci_device_id, facts->pci_device_id) &&
           pega_tune_same_text_(own->pci_subsystem_id, facts->pci_subsystem_id) &&
           pega_tune_same_text_(own->host_cpu, facts->host_cpu) && own->numa_distance == facts->numa_distance &&
           own->iommu == facts->iommu && (own->confidential > 0) == (facts->confidential > 0);
}

/* The profile of this very board, else the newest of a device like it; NULL if there is none. */
static inline const pega_tune_profile *pega_tune_profile_for(const pega_tune_facts *facts, bool allow_drafts) {
    const pega_tune_profile *found = NULL;
    for (size_t at = 0; at < sizeof pega_tune_profiles / sizeof *pega_tune_profiles; ++at) {
        const pega_tune_profile *profile = &pega_tune_profiles[at];
        if (!(profile->published || allow_drafts) || !pega_tune_matches(profile, facts)) continue;
        if (pega_tune_same_text_(profile->facts.uuid, facts->uuid)) return profile;
        if (!found) found = profile;
    }
    return found;
}

static inline double pega_tune_cost_(const pega_tune_option_ *option, int kind) {
    if (kind == PEGA_TUNE_BURDEN_) return option->burden;
    if (kind == PEGA_TUNE_COMPLETION_ && option->costs[kind] < 0) kind = PEGA_TUNE_TIME_;
    return option->costs[kind];
}

/* Which options of a list, as bits, cost at most so much. */
static inline unsigned pega_tune_within_(const uint32_t *list, unsigned mask, int kind, double most) {
    unsigned kept = 0;
    for (unsigned at = 0; mask >> at; ++at)
        if (mask >> at & 1 && pega_tune_cost_(&pega_tune_options[list[at]], kind) <= most) kept |= 1u << at;
    return kept;
}

/* The place of the option that costs least; ties go to the one that stands first. */
static inline unsigned pega_tune_least_(const uint32_t *list, unsigned mask, int kind) {
    unsigned best = 0;
    while (!(mask >> best & 1)) ++best;
    for (unsigned at = best + 1; mask >> at; ++at)
        if (mask >> at & 1 && pega_tune_cost_(&pega_tune_options[list[at]], kind) <
                                  pega_tune_cost_(&pega_tune_options[list[best]], kind)) best = at;
    return best;
}

static inline double pega_tune_least_cost_(const uint32_t *list, unsigned mask, int kind) {
    return pega_tune_cost_(&pega_tune_options[list[pega_tune_least_(list, mask, kind)]], kind);
}

static inline unsigned pega_tune_fastest_(const uint32_t *list, unsigned mask, double margin) {
    double most_s = pega_tune_least_cost_(list, mask, PEGA_TUNE_TIME_) * (1 + margin);
    unsigned kept = pega_tune_within_(list, mask, PEGA_TUNE_TIME_, most_s);
    unsigned first = 0;
    while (!(kept >> first & 1)) ++first;
    return first;
}

/* Twice the place of the option to take, and one more if the budget is met. */
static inline unsigned pega_tune_choose_(const uint32_t *list, unsigned count, const pega_tune_question *question,
                                         const pega_tune_table_ *table) {
    unsigned sustained = 0, known = 0, within;
    for (unsigned at = 0; at < count; ++at) {
        const pega_tune_option_ *option = &pega_tune_options[list[at]];
        if (!(pega_tune_cost_(option, PEGA_TUNE_COMPLETION_) < question->period_s)) continue;
        sustained |= 1u << at;
        if (option->evidence != PEGA_TUNE_EVIDENCE_NONE) known |= 1u << at;
    }
    if (!sustained) return 2 * pega_tune_least_(list, (1u << count) - 1, PEGA_TUNE_COMPLETION_);
    if (question->objective == PEGA_TUNE_OBJECTIVE_THROUGHPUT)
        return 2 * pega_tune_fastest_(list, sustained, table->margin) + 1;
    if (!known) {
        if (question->objective == PEGA_TUNE_OBJECTIVE_BALANCED)
            return 2 * pega_tune_fastest_(list, sustained, table->margin);
        double lightest = pega_tune_least_cost_(list, sustained, PEGA_TUNE_BURDEN_);
        within = pega_tune_within_(list, sustained, PEGA_TUNE_BURDEN_, lightest);
        return 2 * pega_tune_least_(list, within, PEGA_TUNE_COMPLETION_);
    }
    unsigned least_stall = pega_tune_least_(list, known, PEGA_TUNE_STALL_);
    if (question->objective == PEGA_TUNE_OBJECTIVE_STRICT) return 2 * least_stall + 1;
    if (question->objective == PEGA_TUNE_OBJECTIVE_BALANCED) {
        double most_extra_s = PEGA_TUNE_MAX_ITL_COST * question->period_s;
        within = pega_tune_within_(list, known, PEGA_TUNE_EXTRA_, most_extra_s);
    } else {
        double step_s = question->step_s > 0 ? question->step_s : table->step_s;
        double most_stall_s = question->budget * step_s;
        within = step_s > 0 ? pega_tune_within_(list, known, PEGA_TUNE_STALL_, most_stall_s) : 0;
    }
    return within ? 2 * pega_tune_least_(list, within, PEGA_TUNE_COMPLETION_) + 1 : 2 * least_stall;
}

/* The option for a cell, twice, and one more if the budget is met. */
static inline uint32_t pega_tune_option_of_(const pega_tune_table_ *table, uint32_t cell,
                                            const pega_tune_question *question) {
    if (table == pega_tune_tables) { /* the rule: many small ranges, in the third cell of four, take a kernel */
        bool launches = cell == 2 && (question->objective == PEGA_TUNE_OBJECTIVE_THROUGHPUT ||
                                      question->objective == PEGA_TUNE_OBJECTIVE_BALANCED);
        return 2 * pega_tune_rule[launches ? 1 + (unsigned)question->runtime : 0];
    }
    uint32_t packed = pega_tune_cells[table->cells + cell];
    const uint32_t *list = &pega_tune_entries[packed / 4];
    unsigned choice = pega_tune_choose_(list, packed % 4 + 1, question, table);
    return 2 * list[choice / 2] + choice % 2;
}

static inline void pega_tune_fill_(pega_tune_decision *decisions, const pega_tune_table_ *table,
                                   const pega_tune_question *question, const char *profile, bool lent) {
    for (uint32_t cell = 0; cell < table->rows * table->columns; ++cell) {
        uint32_t choice = pega_tune_option_of_(table, cell, question);
        const pega_tune_option_ *option = &pega_tune_options[choice / 2];
        pega_tune_decision *decision = &decisions[cell];
        decision->load = question->direction == PEGA_TUNE_DIRECTION_D2H ? NULL : &pega_tune_plans[option->load];
        decision->save = question->direction == PEGA_TUNE_DIRECTION_H2D ? NULL : &pega_tune_plans[option->save];
        decision->profile = profile;
        decision->time_s = option->costs[PEGA_TUNE_TIME_];
        decision->stall_s = option->costs[PEGA_TUNE_STALL_];
        decision->completion_p99_s = option->costs[PEGA_TUNE_COMPLETION_];
        decision->predicted_ranges = pega_tune_centres[table->range_edges + cell / table->columns];
        decision->predicted_range_bytes = pega_tune_centres[table->size_edges + cell % table->columns];
        decision->colocation = profile ? (pega_tune_colocation)table->colocation
                               : question->colocation == PEGA_TUNE_COLOCATION_UNASKED ? PEGA_TUNE_COLOCATION_IDLE
                                                                                      : question->colocation;
        decision->hint = (pega_tune_hint)table->hint;
        decision->evidence = lent ? PEGA_TUNE_EVIDENCE_NONE : (pega_tune_evidence)option->evidence;
        decision->fused = question->direction == PEGA_TUNE_DIRECTION_BOTH && option->fused;
        decision->budget_met = choice % 2 && !lent;
    }
}

/* Makes the answers to a question ready. */
static inline pega_tune_status pega_tune_ask(const pega_tune_profile *profile, const pega_tune_question *question,
                                             pega_tune_policy *policy) {
    unsigned direction = (unsigned)question->direction, runtime = (unsigned)question->runtime;
    unsigned objective = (unsigned)question->objective;
    int asked = (int)question->colocation;
    unsigned colocation = asked == -1 ? PEGA_TUNE_COLOCATIONS_ : (unsigned)asked;
    if (direction >= PEGA_TUNE_DIRECTIONS_ || runtime >= PEGA_TUNE_RUNTIMES_ || objective >= PEGA_TUNE_OBJECTIVES_ ||
        colocation > PEGA_TUNE_COLOCATIONS_ || asked == PEGA_TUNE_COLOCATIONS_) return PEGA_TUNE_BAD_WORD;
    if (!(question->budget >= 0 && question->budget <= DBL_MAX && question->period_s > 0 &&
          question->period_s <= DBL_MAX && question->step_s >= 0 && question->step_s <= DBL_MAX))
        return PEGA_TUNE_BAD_NUMBER;
    size_t route = (size_t)(profile - pega_tune_profiles) * PEGA_TUNE_DIRECTIONS_ + direction;
    const int32_t *tables =
        pega_tune_routes[(route * (PEGA_TUNE_COLOCATIONS_ + 1) + colocation) * PEGA_TUNE_RUNTIMES_ + runtime];
    if (tables[0] < 0) return PEGA_TUNE_RUNTIME_LEFT_OUT;
    uint32_t first = 0;
    policy->own = policy->lent = 0;
    for (unsigned hint = 0; hint < 4; ++hint) {
        const pega_tune_table_ *table = tables[hint] < 0 ? NULL : &pega_tune_tables[tables[hint]];
        policy->tables[hint] = table;
        policy->first[hint] = first;
        if (!table) continue;
        bool lent = table->colocation != policy->tables[0]->colocation;
        *(lent ? &policy->lent : &policy->own) |= 1u << hint;
        pega_tune_fill_(&policy->decisions[first], table, question, tables[0] ? profile->profile_id : NULL, lent);
        first += table->rows * table->columns;
    }
    return PEGA_TUNE_OK;
}

/* Leading zeros of a number that is not 0. */
static inline unsigned pega_tune_zeros_(uint64_t value) {
#ifdef __GNUC__
    return (unsigned)__builtin_clzll(value);
#else
    unsigned zeros = 0;
    for (unsigned half = 32; half; half /= 2)
        if (!(value >> (64 - half - zeros))) zeros += half;
    return zeros;
#endif
}

/* The place of the last edge that is not above a value. The leading bits say nearly where it is. */
static inline uint32_t pega_tune_find_(const uint64_t *edges, const uint16_t *buckets, uint64_t value) {
    unsigned zeros = pega_tune_zeros_(value);
    uint32_t at = buckets[4 * (63 - zeros) + ((value << zeros) >> 61) - 4];
    at += edges[at + 1] <= value;
    while (edges[at + 1] <= value) ++at;
    return at;
}

static inline bool pega_tune_covers_(const pega_tune_table_ *table, uint64_t ranges, uint64_t size) {
    const uint64_t *low = table->measured;
    uint64_t bytes = ranges * size;
    return (ranges >= low[0]) & (ranges <= low[1]) & (size >= low[2]) & (size <= low[3]) & (bytes >= low[4]) &
           (bytes <= low[5]);
}

/* The hint that supposes most, of some, whose table covers a shape; 0 if none does. */
static inline unsigned pega_tune_strongest_(const pega_tune_policy *policy, unsigned hints, uint64_t ranges,
                                            uint64_t size) {
    unsigned hint = 3;
    while (hint && !(hints >> hint & 1 && pega_tune_covers_(policy->tables[hint], ranges, size))) --hint;
    return hint;
}

/* Of the table of a hint. */
static inline const pega_tune_decision *pega_tune_decision_(const pega_tune_policy *policy, unsigned hint,
                                                            uint64_t ranges, uint64_t size) {
    const pega_tune_table_ *table = policy->tables[hint];
    uint32_t row = pega_tune_find_(&pega_tune_edges[table->range_edges], &pega_tune_buckets[table->range_buckets], ranges);
    uint32_t column = pega_tune_find_(&pega_tune_edges[table->size_edges], &pega_tune_buckets[table->size_buckets], size);
    return &policy->decisions[policy->first[hint] + row * table->columns + column];
}

/* Whether the colocation's own table knows what its answer costs decode: what was measured without gives way to it. */
static inline bool pega_tune_knows_(const pega_tune_policy *policy, uint64_t ranges, uint64_t size) {
    return pega_tune_covers_(policy->tables[0], ranges, size) &&
           pega_tune_decision_(policy, 0, ranges, size)->evidence != PEGA_TUNE_EVIDENCE_NONE;
}

/* How to run a transfer. Takes no lock; nothing is written but the decision. */
static inline pega_tune_status pega_tune_decide(const pega_tune_policy *policy, const pega_tune_shape *shape,
                                                pega_tune_decision *decision) {
    uint64_t ranges = shape->merged_ranges, total = shape->total_bytes, runs = shape->host_runs;
    if (ranges < 1 || total < ranges || total > PEGA_TUNE_MAX_BYTES) return PEGA_TUNE_BAD_SHAPE;
    uint64_t size = total >> 32 ? total / ranges : (uint32_t)total / (uint32_t)ranges; /* 64 bits divide slowly */
    unsigned hint = 0;
    if (runs | shape->alignment | shape->pitch) {
        if (runs > ranges) return PEGA_TUNE_BAD_HOST_RUNS;
        if (shape->pitch && shape->pitch < size) return PEGA_TUNE_BAD_PITCH;
        if (shape->alignment > 16 || (shape->alignment & (shape->alignment - 1))) return PEGA_TUNE_BAD_ALIGNMENT;
        bool many = runs && ranges / runs >= PEGA_TUNE_RANGES_PER_RUN;
        unsigned known = many * (1u << PEGA_TUNE_HINT_HOST_RUNS) | (runs == 1) * (1u << PEGA_TUNE_HINT_HOST_ORDERED) |
                         (shape->pitch != 0) * (1u << PEGA_TUNE_HINT_STRIDED);
        hint = pega_tune_strongest_(policy, known & policy->own, ranges, size);
        if (!hint && known & policy->lent && !pega_tune_knows_(policy, ranges, size))
            hint = pega_tune_strongest_(policy, known & policy->lent, ranges, size);
    }
    *decision = *pega_tune_decision_(policy, hint, ranges, size);
    if (!pega_tune_covers_(policy->tables[hint], ranges, size)) {
        decision->time_s = decision->stall_s = decision->completion_p99_s = -1;
        decision->predicted_ranges = decision->predicted_range_bytes = 0;
        decision->evidence = PEGA_TUNE_EVIDENCE_NONE;
        decision->budget_met = false;
    }
    return PEGA_TUNE_OK;
}

#ifdef PEGA_TUNE_SELF_TEST
static inline bool pega_tune_passes_(const uint64_t *row) {
    static pega_tune_policy policy;
    static uint64_t asked = UINT64_MAX;
    pega_tune_shape shape = {row[1], row[2], row[3], 0, row[4]};
    pega_tune_decision found;
    if (row[0] != asked) {
        const int *words = pega_tune_test_questions[row[0]];
        const double *terms = pega_tune_test_terms[row[0]];
        pega_tune_question question = {
            (pega_tune_direction)words[1], (pega_tune_objective)words[2], (pega_tune_colocation)words[3],
            (pega_tune_runtime)words[4], terms[0], terms[1], terms[2]};
        if (pega_tune_ask(&pega_tune_profiles[words[0]], &question, &policy) != PEGA_TUNE_OK) return false;
        asked = row[0];
    }
    if (pega_tune_decide(&policy, &shape, &found) != PEGA_TUNE_OK) return false;
    const pega_tune_option_ *option = &pega_tune_options[row[5]];
    return (!found.load || found.load == &pega_tune_plans[option->load]) &&
           (!found.save || found.save == &pega_tune_plans[option->save]) &&
           found.fused == (found.load && found.save && option->fused) && found.time_s == (row[6] ? option->costs[0] : -1) &&
           found.stall_s == (row[6] ? option->costs[1] : -1) &&
           found.completion_p99_s == (row[6] ? option->costs[3] : -1) &&
           found.budget_met == row[7] && (uint64_t)found.colocation == row[8] && (uint64_t)found.hint == row[9];
}

/* How many test vectors are not answered as they were when the file was written. */
static inline size_t pega_tune_failures(void) {
    size_t failures = 0;
    for (size_t at = 0; at < sizeof pega_tune_test_vectors / sizeof *pega_tune_test_vectors; ++at)
        failures += !pega_tune_passes_(pega_tune_test_vectors[at]);
    return failures;
}
#endif

#endif
