//! Copy plans by the shape of a transfer, as pega-tune measured them. Rust 1.63 and its standard library.
//!
//! ```ignore
//! let profile = policy::profile_for(&facts, false)?; // None: there is none of this device
//! let policy = profile.policy(&Question { direction: Direction::H2d, ..Question::default() })?;
//! let decision = policy.decide(&Shape::new(merged_ranges, total_bytes))?;
//! ```
//!
//! `cargo test` checks the file against answers that were written with it.

#![allow(dead_code)]

use std::fmt;

// @WORDS
// @END

/// A PCIe link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub generation: u32,
    pub width: u32,
}

/// What a device is; `None` where the host does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// As CUDA has it; empty if it does not matter which board it is.
    pub uuid: &'a str,
    pub compute_capability: (u32, u32),
    pub sm_count: u32,
    pub memory_gib: u32,
    pub copy_engines: u32,
    /// Empty without MIG.
    pub mig_slice: &'a str,
    /// `vendor:device`, lower-case hex.
    pub pci_device_id: Option<&'a str>,
    pub pci_subsystem_id: Option<&'a str>,
    /// The widest and fastest that device and slot can train.
    pub max_link: Option<Link>,
    pub host_cpu: Option<&'a str>,
    pub numa_distance: Option<u32>,
    pub iommu: Option<bool>,
    pub confidential: Option<bool>,
}

/// Bounds on the copy kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOptions {
    pub max_grid_blocks: u32,
    /// `None` puts the whole transfer into one launch.
    pub chunk_descriptors: Option<usize>,
}

/// How to run one direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyPlan {
    pub backend: Backend,
    /// `None` without a kernel, as threads and options.
    pub variant: Option<Variant>,
    /// Of a CTA.
    pub threads: Option<u32>,
    pub options: Option<KernelOptions>,
    /// `None` does not cut.
    pub chunk_bytes: Option<u64>,
    pub stream_priority: i32,
    pub completion: Completion,
    pub backpressure: bool,
    /// `None` leaves all SMs.
    pub sm_partition: Option<u32>,
    pub prefer_overlap: bool,
}

/// What is asked, whatever the shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    pub direction: Direction,
    pub objective: Objective,
    /// Stall that `TailBounded` allows per burst, as a fraction of a decode step.
    pub budget: f64,
    /// From one burst to the next; plans that take longer are passed over.
    pub period_s: f64,
    /// Undisturbed decode step; `None` takes the one that the profile was measured beside.
    pub step_s: Option<f64>,
    /// `None` takes `TimeSliced` if that was measured.
    pub colocation: Option<Colocation>,
    /// Plans that the caller can run.
    pub runtime: Runtime,
}

impl Default for Question {
    fn default() -> Self {
        Question {
            direction: Direction::Both,
            objective: Objective::Balanced,
            budget: DEFAULT_BUDGET,
            period_s: DEFAULT_PERIOD_S,
            step_s: None,
            colocation: None,
            runtime: Runtime::Full,
        }
    }
}

/// A transfer; counts are per direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub merged_ranges: u64,
    pub total_bytes: u64,
    /// Runs that are adjacent on the host side.
    pub host_runs: Option<u64>,
    /// Largest power of two, at most 16, dividing every address and size.
    pub alignment: Option<u64>,
    /// Device stride in bytes if the ranges are one arithmetic progression.
    pub pitch: Option<u64>,
}

impl Shape {
    /// One of which no more is known.
    pub const fn new(merged_ranges: u64, total_bytes: u64) -> Self {
        Shape { merged_ranges, total_bytes, host_runs: None, alignment: None, pitch: None }
    }
}

/// What a plan is expected to cost, in seconds; `None` where nothing was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    pub time_s: Option<f64>,
    pub stall_s: Option<f64>,
    pub completion_p99_s: Option<f64>,
}

/// The shape that a prediction is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub merged_ranges: u64,
    pub average_range_bytes: u64,
}

/// How to run a transfer, and how far to trust it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// `None` if only saves were asked for.
    pub load: Option<&'static CopyPlan>,
    /// `None` if only loads were asked for.
    pub save: Option<&'static CopyPlan>,
    /// Both directions share a launch.
    pub fused: bool,
    pub predicted: Predicted,
    /// `None` outside what was measured, where nothing is predicted.
    pub predicted_for: Option<Place>,
    /// The plan is known to keep what the objective promises within the period.
    pub budget_met: bool,
    /// Beside what it was measured.
    pub colocation: Colocation,
    /// What it supposes of the ranges, beside their number and size.
    pub hint: Hint,
    /// What the claim about decode rests on.
    pub evidence: Evidence,
    /// Id of the profile; `None` if the rule answers, for want of a table.
    pub profile: Option<&'static str>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Budget, period or step is out of its range.
    Terms,
    /// The file was written without this runtime.
    Runtime,
    /// No ranges, fewer bytes than ranges, or more than 2^62.
    Shape,
    /// Host runs are 1 to the number of ranges.
    HostRuns,
    /// Alignment is 1, 2, 4, 8 or 16.
    Alignment,
    /// Pitch is at least the size of a range.
    Pitch,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Refusal::Terms => "budget, period or step is out of its range",
            Refusal::Runtime => "the file was written without this runtime",
            Refusal::Shape => "there is no transfer with so many ranges and bytes",
            Refusal::HostRuns => "host runs are 1 to the number of ranges",
            Refusal::Alignment => "alignment is 1, 2, 4, 8 or 16",
            Refusal::Pitch => "pitch is at least the size of a range",
        })
    }
}

impl std::error::Error for Refusal {}

/// What was measured on one device.
#[derive(Debug)]
pub struct Profile {
    index: usize,
    pub profile_id: &'static str,
    /// ISO 8601.
    pub created_at: &'static str,
    /// Else a draft, which should decide nothing unless somebody looked at it.
    pub published: bool,
    /// Of a device that does not exist.
    pub simulated: bool,
    pub facts: Facts<'static>,
}

/// The profile of this very board, else the newest of a device like it.
pub fn profile_for(facts: &Facts<'_>, allow_drafts: bool) -> Option<&'static Profile> {
    let fitting = |each: &&'static Profile| (each.published || allow_drafts) && each.matches(facts);
    let own = PROFILES.iter().filter(fitting).find(|each| each.facts.uuid == facts.uuid);
    own.or_else(|| PROFILES.iter().find(fitting))
}

fn is_unreal(uuid: &str) -> bool {
    uuid.starts_with("sim:") || uuid.starts_with("replay:")
}

impl Profile {
    /// Whether a device is like the one that was measured; no real one is like a simulated one. An unknown link is
    /// taken for the same.
    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        let own = &self.facts;
        if (is_unreal(own.uuid) || is_unreal(facts.uuid)) && own.uuid != facts.uuid {
            return false;
        }
        let links = match (own.max_link, facts.max_link) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        links
            && own.compute_capability == facts.compute_capability
            && own.sm_count == facts.sm_count
            && own.memory_gib == facts.memory_gib
            && own.copy_engines == facts.copy_engines
            && own.mig_slice == facts.mig_slice
            && own.pci_device_id == facts.pci_device_id
            && own.pci_subsystem_id == facts.pci_subsystem_id
            && own.host_cpu == facts.host_cpu
            && own.numa_distance == facts.numa_distance
            && own.iommu == facts.iommu
            && own.confidential.unwrap_or(false) == facts.confidential.unwrap_or(false)
    }

    /// Makes the answers to a question ready.
    pub fn policy(&self, question: &Question) -> Result<Policy, Refusal> {
        let step_s = question.step_s.unwrap_or(1.0);
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let budget = question.budget >= 0.0 && question.budget.is_finite();
        if !(budget && positive(question.period_s) && positive(step_s)) {
            return Err(Refusal::Terms);
        }
        let colocation = question.colocation.map_or(COLOCATIONS, |word| word as usize);
        let route = (self.index * DIRECTIONS + question.direction as usize) * (COLOCATIONS + 1) + colocation;
        let tables = ROUTES[route * RUNTIMES + question.runtime as usize];
        if tables[0] < 0 {
            return Err(Refusal::Runtime);
        }
        let ruled = tables[0] == 0;
        let mut policy = Policy {
            profile: if ruled { None } else { Some(self.profile_id) },
            direction: question.direction,
            asked: question.colocation.unwrap_or(Colocation::Idle),
            answers: [None; HINTS],
            decisions: Vec::new(),
        };
        let own = TABLES[tables[0] as usize].colocation;
        for (hint, &table) in ALL_HINTS.into_iter().zip(&tables).filter(|(_, &table)| table >= 0) {
            let table = &TABLES[table as usize];
            let lent = table.colocation != own;
            policy.answers[hint as usize] = Some(Answers::of(table, policy.decisions.len(), lent));
            for cell in 0..table.rows * table.columns {
                let (option, met) = if ruled { by_rule(cell, question) } else { table.choose(cell, question) };
                let decision = policy.decision(hint, table, cell, option as usize);
                let evidence = if lent { Evidence::None } else { decision.evidence };
                policy.decisions.push(Decision { budget_met: met && !lent, evidence, ..decision });
            }
        }
        Ok(policy)
    }
}

/// Many small ranges, in the third cell of four, take a kernel.
fn by_rule(cell: usize, question: &Question) -> (u32, bool) {
    let launches = cell == 2 && matches!(question.objective, Objective::Throughput | Objective::Balanced);
    (RULE[if launches { 1 + question.runtime as usize } else { 0 }], false)
}

#[derive(Debug)]
struct Table {
    colocation: Colocation,
    range_edges: usize,
    rows: usize,
    range_buckets: usize,
    size_edges: usize,
    columns: usize,
    size_buckets: usize,
    cells: usize,
    measured: [u64; 6],
    margin: f64,
    step_s: Option<f64>,
}

fn time_s(option: u32) -> f64 {
    COSTS[option as usize][0]
}

fn stall_s(option: u32) -> f64 {
    COSTS[option as usize][1]
}

fn extra_s(option: u32) -> f64 {
    COSTS[option as usize][2]
}

fn latency_s(option: u32) -> f64 {
    let [time_s, _, _, completion_s] = COSTS[option as usize];
    if completion_s < 0.0 { time_s } else { completion_s }
}

fn burden(option: u32) -> f64 {
    f64::from(OPTIONS[option as usize][4])
}

fn evidence(option: usize) -> Evidence {
    match OPTIONS[option][3] {
        0 => Evidence::Measured,
        1 => Evidence::Fitted,
        _ => Evidence::None,
    }
}

/// The option that costs least; ties go to the one that stands first.
fn least(options: impl Iterator<Item = u32>, cost: fn(u32) -> f64) -> Option<u32> {
    options.fold(None, |best, option| match best {
        Some(other) if cost(other) <= cost(option) => Some(other),
        _ => Some(option),
    })
}

fn fastest(options: impl Iterator<Item = u32> + Clone, margin: f64) -> Option<u32> {
    let most_s = time_s(least(options.clone(), time_s)?) * (1.0 + margin);
    options.into_iter().find(|&option| time_s(option) <= most_s)
}

impl Table {
    /// The option to take, and whether the budget is met.
    fn choose(&self, cell: usize, question: &Question) -> (u32, bool) {
        let cell = CELLS[self.cells + cell] as usize;
        let list = &ENTRIES[cell / 4..cell / 4 + cell % 4 + 1];
        let sustained = list.iter().copied().filter(|&option| latency_s(option) < question.period_s);
        if sustained.clone().next().is_none() {
            return (least(list.iter().copied(), latency_s).unwrap_or(list[0]), false);
        }
        let quickest = fastest(sustained.clone(), self.margin).unwrap_or(list[0]);
        if question.objective == Objective::Throughput {
            return (quickest, true);
        }
        let known = sustained.clone().filter(|&option| evidence(option as usize) != Evidence::None);
        let gentlest = match least(known.clone(), stall_s) {
            Some(option) => option,
            None if question.objective == Objective::Balanced => return (quickest, false),
            None => {
                let lightest = least(sustained.clone(), burden).map_or(0.0, burden);
                let light = sustained.filter(|&option| burden(option) == lightest);
                return (least(light, latency_s).unwrap_or(list[0]), false);
            }
        };
        let first = match question.objective {
            Objective::Strict => return (gentlest, true),
            Objective::Balanced => {
                let most_extra_s = MAX_ITL_COST * question.period_s;
                least(known.filter(|&option| extra_s(option) <= most_extra_s), latency_s)
            }
            _ => {
                let step_s = question.step_s.or(self.step_s);
                let most_stall_s = step_s.map_or(f64::NEG_INFINITY, |step_s| question.budget * step_s);
                least(known.filter(|&option| stall_s(option) <= most_stall_s), latency_s)
            }
        };
        first.map_or((gentlest, false), |option| (option, true))
    }
}

/// Ascending lower edges, and for leading bits of a value the place of the last edge that is surely not above it.
#[derive(Clone, Copy, Debug)]
struct Axis {
    edges: &'static [u64],
    buckets: &'static [u16],
}

impl Axis {
    fn of(edges: usize, count: usize, buckets: usize) -> Self {
        Axis { edges: &EDGES[edges + 1..edges + count + 1], buckets: &BUCKETS[buckets..buckets + 256] }
    }

    /// The place of the last edge that is not above a value.
    #[inline]
    fn find(&self, value: u64) -> usize {
        let zeros = value.leading_zeros();
        let bucket = 4 * (63 - zeros as usize) + ((value << zeros) >> 61) as usize - 4;
        let mut place = usize::from(self.buckets[bucket]);
        place += usize::from(self.edges[place] <= value);
        while self.edges[place] <= value {
            place += 1;
        }
        place
    }
}

#[derive(Clone, Copy, Debug)]
struct Answers {
    ranges: Axis,
    sizes: Axis,
    columns: usize,
    measured: [u64; 6],
    first: usize,
    /// By the idle device, to another colocation.
    lent: bool,
}

impl Answers {
    fn of(table: &Table, first: usize, lent: bool) -> Self {
        Answers {
            ranges: Axis::of(table.range_edges, table.rows, table.range_buckets),
            sizes: Axis::of(table.size_edges, table.columns, table.size_buckets),
            columns: table.columns,
            measured: table.measured,
            first,
            lent,
        }
    }

    #[inline]
    fn cell(&self, ranges: u64, size: u64) -> usize {
        self.first + self.ranges.find(ranges) * self.columns + self.sizes.find(size)
    }

    #[inline]
    fn covers(&self, ranges: u64, size: u64) -> bool {
        let [a, b, c, d, e, f] = self.measured;
        let bytes = ranges * size;
        (ranges >= a) & (ranges <= b) & (size >= c) & (size <= d) & (bytes >= e) & (bytes <= f)
    }
}

/// A profile's answers to one question, whatever the shape.
#[derive(Clone, Debug)]
pub struct Policy {
    profile: Option<&'static str>,
    direction: Direction,
    /// What the rule names.
    asked: Colocation,
    answers: [Option<Answers>; HINTS],
    decisions: Vec<Decision>,
}

impl Policy {
    /// How to run a transfer. Takes no lock and allocates nothing.
    #[inline]
    pub fn decide(&self, shape: &Shape) -> Result<Decision, Refusal> {
        let (ranges, total) = (shape.merged_ranges, shape.total_bytes);
        if ranges < 1 || total < ranges || total > MAX_BYTES {
            return Err(Refusal::Shape);
        }
        // 64 bits divide slowly.
        let size = if total >> 32 == 0 { u64::from(total as u32 / ranges as u32) } else { total / ranges };
        let told = shape.host_runs.is_some() || shape.alignment.is_some() || shape.pitch.is_some();
        let hint = if told { self.hint(shape, size)? } else { Hint::None };
        let answers = self.answers[hint as usize].as_ref().ok_or(Refusal::Runtime)?;
        let decision = &self.decisions[answers.cell(ranges, size)];
        Ok(if answers.covers(ranges, size) { *decision } else { decision.unmeasured() })
    }

    /// Of the table that answers.
    fn hint(&self, shape: &Shape, size: u64) -> Result<Hint, Refusal> {
        let ranges = shape.merged_ranges;
        let runs = match shape.host_runs {
            Some(runs) if runs < 1 || runs > ranges => return Err(Refusal::HostRuns),
            runs => runs.unwrap_or(u64::MAX),
        };
        if shape.pitch.map_or(false, |pitch| pitch < size) {
            return Err(Refusal::Pitch);
        }
        if shape.alignment.map_or(false, |alignment| alignment > 16 || !alignment.is_power_of_two()) {
            return Err(Refusal::Alignment);
        }
        let known = [
            (Hint::Strided, shape.pitch.is_some()),
            (Hint::HostOrdered, runs == 1),
            (Hint::HostRuns, ranges / runs >= RANGES_PER_RUN),
        ];
        let strongest = |lent: bool| {
            let covers = |it: Answers| it.lent == lent && it.covers(ranges, size);
            let first = known.iter().find(|&&(hint, known)| known && self.answers[hint as usize].map_or(false, covers));
            first.map(|&(hint, _)| hint)
        };
        // What was measured beside decode comes before what was measured without.
        let own = strongest(false);
        let lent = || if self.knows(ranges, size) { None } else { strongest(true) };
        Ok(own.or_else(lent).unwrap_or(Hint::None))
    }

    /// Whether the colocation's own table knows what its answer costs decode.
    fn knows(&self, ranges: u64, size: u64) -> bool {
        let known = |it: Answers| self.decisions[it.cell(ranges, size)].evidence != Evidence::None;
        self.answers[Hint::None as usize].map_or(false, |it| it.covers(ranges, size) && known(it))
    }

    /// The answer for the shapes of a cell that lie inside what was measured; the budget is left open.
    fn decision(&self, hint: Hint, table: &Table, cell: usize, option: usize) -> Decision {
        let [load, save, fused, ..] = OPTIONS[option];
        let [time_s, stall_s, _, completion_p99_s] = COSTS[option];
        let known = |cost: f64| if cost < 0.0 { None } else { Some(cost) };
        let place = Place {
            merged_ranges: CENTRES[table.range_edges + cell / table.columns],
            average_range_bytes: CENTRES[table.size_edges + cell % table.columns],
        };
        Decision {
            load: if self.direction == Direction::D2h { None } else { Some(&PLANS[usize::from(load)]) },
            save: if self.direction == Direction::H2d { None } else { Some(&PLANS[usize::from(save)]) },
            fused: fused != 0 && self.direction == Direction::Both,
            predicted: Predicted {
                time_s: known(time_s),
                stall_s: known(stall_s),
                completion_p99_s: known(completion_p99_s),
            },
            predicted_for: Some(place),
            budget_met: false,
            colocation: if self.profile.is_some() { table.colocation } else { self.asked },
            hint,
            evidence: evidence(option),
            profile: self.profile,
        }
    }
}

impl Decision {
    /// The same for shapes of which nothing is known.
    fn unmeasured(&self) -> Self {
        Decision {
            predicted: Predicted { time_s: None, stall_s: None, completion_p99_s: None },
            predicted_for: None,
            budget_met: false,
            evidence: Evidence::None,
            ..*self
        }
    }
}

// @DATA
// @END
