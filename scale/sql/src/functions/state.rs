//! Writes the loaded state of functions as bytes, and reads it. A process that evaluates a plan of
//! another process gets the state in this form.
//!
//! The state of `row` and `bank` has rows of `runs`. The state of `function_at` has names and, for
//! each session, the clocks at which functions change. Both are JSON, the clocks as distances.
//! Invariant: functions that are read from equal bytes share one state while it is in use, so that
//! they are equal.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, plan_err};
use datafusion::logical_expr::ScalarUDF;

use super::address_maps::{AddressMaps, MapRow};
use super::function_at::{self, FunctionAt};
use super::places::{self, PlaceFunction};
use super::timelines::{Known, Timeline, Timelines};
use super::{OF_MAPS, OF_TIMELINES};

/// Largest size of a state in bytes. A plan has a state for each call of the function, and each
/// task has the plan.
const MOST_BYTES: usize = 4 << 20;

/// Capture and number of a session, and its changes. A change is the distance to the previous
/// clock, and the number of a name.
type SessionChanges = (String, i64, Vec<(i64, u32)>);

/// States that were read from bytes, and are still in use.
struct InUse<T>(Mutex<HashMap<Vec<u8>, Weak<T>>>);

static MAPS: LazyLock<InUse<AddressMaps>> = LazyLock::new(InUse::new);
static TIMELINES: LazyLock<InUse<Timelines>> = LazyLock::new(InUse::new);

impl<T> InUse<T> {
    fn new() -> Self {
        InUse(Mutex::new(HashMap::new()))
    }

    fn get(&self, bytes: &[u8], read: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared_state) = known.get(bytes).and_then(Weak::upgrade) {
            return Ok(shared_state);
        }
        let state = Arc::new(read()?);
        known.retain(|_, state| state.strong_count() > 0);
        known.insert(bytes.to_vec(), Arc::downgrade(&state));
        Ok(state)
    }
}

/// Returns the state that a function has loaded, as bytes; `None` if the function needs none.
///
/// # Errors
/// Nothing is loaded, or the state is too large.
pub fn write_state(function: &ScalarUDF) -> Result<Option<Vec<u8>>> {
    let inner: &dyn Any = function.inner().as_ref();
    let state = if let Some(place) = inner.downcast_ref::<PlaceFunction>() {
        place.maps.rows().map(serde_json::to_vec)
    } else if let Some(function) = inner.downcast_ref::<FunctionAt>() {
        function.timelines.get().map(|known| serde_json::to_vec(&to_distances(known)))
    } else {
        return Ok(None);
    };
    let name = function.name();
    let state = state.ok_or_else(|| exec_datafusion_err!("{name}: nothing is loaded"))?;
    let state = state.map_err(|error| DataFusionError::External(error.into()))?;
    if state.len() > MOST_BYTES {
        return plan_err!(
            "{name}: what it needs has {} bytes; a cluster is sent at most {MOST_BYTES}; execute the query without \
             --cluster",
            state.len()
        );
    }
    Ok(Some(state))
}

/// Returns the function with the state in these bytes.
///
/// # Errors
/// The function has no state, or the bytes are not a state of it.
pub fn read_state(name: &str, bytes: &[u8]) -> Result<ScalarUDF> {
    let damaged = |error| exec_datafusion_err!("{name}: the state is damaged: {error}");
    if let Some(place) = OF_MAPS.iter().position(|known| *known == name) {
        let maps = MAPS.get(bytes, || {
            let rows: Vec<MapRow> = serde_json::from_slice(bytes).map_err(damaged)?;
            let maps = AddressMaps::default();
            maps.load(&rows)?;
            Ok(maps)
        })?;
        let [row, bank] = places::functions(&maps);
        return Ok(if place == 0 { row } else { bank });
    }
    if name == OF_TIMELINES {
        let timelines = TIMELINES.get(bytes, || {
            let (names, sessions) = serde_json::from_slice(bytes).map_err(damaged)?;
            of_distances(names, sessions)
        })?;
        return Ok(function_at::function(&timelines));
    }
    plan_err!("{name}: not a function with a state")
}

fn to_distances(known: &Known) -> (Vec<&str>, Vec<SessionChanges>) {
    let session = |((capture, session), timeline): (&(String, i64), &Timeline)| {
        let mut last = 0;
        let distance = |(clock, name): &(i64, u32)| {
            let distance = clock - last;
            last = *clock;
            (distance, *name)
        };
        (capture.clone(), *session, timeline.changes.iter().map(distance).collect())
    };
    let names = known.names.iter().map(|name| &**name).collect();
    (names, known.sessions.iter().map(session).collect())
}

fn of_distances(names: Vec<String>, sessions: Vec<SessionChanges>) -> Result<Timelines> {
    let mut known =
        Known { names: names.into_iter().map(Arc::from).collect(), sessions: BTreeMap::default() };
    for (capture, session, distances) in sessions {
        let mut timeline = Timeline::default();
        let mut clock = 0_i64;
        for (distance, name) in distances {
            clock = clock.saturating_add(distance);
            if distance < 0 || name as usize >= known.names.len() {
                return plan_err!("{OF_TIMELINES}: the state is damaged: a change at {clock}");
            }
            timeline.changes.push((clock, name));
        }
        known.sessions.insert((capture, session), timeline);
    }
    Ok(known.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let timeline = Timeline { changes: vec![(10, 0), (25, 1), (40, 0)] };
        let sessions = BTreeMap::from([(("hash".to_owned(), 2), timeline)]);
        Known { names: vec!["main".into(), "(no function)".into()], sessions }
    }

    #[test]
    fn timelines_that_were_written_are_read() {
        let function = function_at::function(&Arc::new(known().into()));
        let bytes = write_state(&function).unwrap().unwrap();
        let read = read_state(OF_TIMELINES, &bytes).unwrap();
        let inner: &dyn Any = read.inner().as_ref();
        let timelines = &inner.downcast_ref::<FunctionAt>().unwrap().timelines;
        assert_eq!(timelines.get().unwrap().sessions, known().sessions);
        assert_eq!(timelines.get().unwrap().names, known().names);
        assert_eq!(read, read_state(OF_TIMELINES, &bytes).unwrap());
        assert_ne!(read, function);
    }

    #[test]
    fn damaged_states_are_errors() {
        for bytes in
            ["", "[]", "[[\"main\"],[[\"hash\",1,[[5,1]]]]]", "[[],[[\"hash\",1,[[-5,0]]]]]"]
        {
            assert!(read_state(OF_TIMELINES, bytes.as_bytes()).is_err(), "{bytes}");
        }
        assert!(read_state("row", b"[[\"run\",\"eth1\",\"{}\"]]").is_err());
        assert!(read_state("page", b"[]").is_err());
    }

    #[test]
    fn functions_have_a_state_after_loading() {
        let maps = Arc::new(AddressMaps::default());
        let [row, _] = places::functions(&maps);
        assert!(write_state(&row).is_err());
        maps.load(&[]).unwrap();
        assert_eq!(write_state(&row).unwrap().unwrap(), b"[]");
        assert_eq!(write_state(&super::super::units::functions()[0]).unwrap(), None);
    }
}
