//! Implements `row(address [, board [, run]])` and `bank(address [, board [, run]])`, which use the
//! address map of the run.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use super::OF_MAPS;
use super::address_maps::{AddressMap, AddressMaps};
use super::collected::{array, returned};

/// The functions.
pub fn functions(maps: &Arc<AddressMaps>) -> [ScalarUDF; 2] {
    use DataType::{Int64, Utf8View};
    let types = [vec![Int64], vec![Int64, Utf8View], vec![Int64, Utf8View, Utf8View]];
    let types = types.map(TypeSignature::Exact).to_vec();
    OF_MAPS.map(|name| {
        let signature = Signature::one_of(types.clone(), Volatility::Stable);
        let value = if name == "row" { AddressMap::row } else { AddressMap::bank };
        ScalarUDF::new_from_impl(PlaceFunction { name, value, maps: maps.clone(), signature })
    })
}

/// `row` or `bank`.
#[derive(Debug)]
pub struct PlaceFunction {
    name: &'static str,
    value: fn(&AddressMap, i64) -> i64,
    /// The maps of the runs.
    pub maps: Arc<AddressMaps>,
    signature: Signature,
}

impl PartialEq for PlaceFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.maps, &other.maps)
    }
}

impl Eq for PlaceFunction {}

impl Hash for PlaceFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for PlaceFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let addresses = array(&args.args, 0, rows)?;
        let addresses = addresses.as_primitive::<Int64Type>();
        if args.args.len() == 1 {
            let map = self.maps.find(self.name, None, None)?;
            let values: ArrayRef =
                Arc::new(addresses.unary::<_, Int64Type>(|address| (self.value)(map, address)));
            return returned(&args.args, values);
        }
        let texts: Result<Vec<ArrayRef>> =
            (1..args.args.len()).map(|place| array(&args.args, place, rows)).collect();
        let texts = texts?;
        let text = |place: usize, row: usize| {
            let texts = texts.get(place)?.as_string_view();
            texts.is_valid(row).then(|| texts.value(row))
        };
        let mut values = Int64Array::builder(rows);
        // Rows of one board and run mostly follow each other, so the last map is kept.
        let mut last = None;
        for row in 0..rows {
            let names = (text(0, row), text(1, row));
            let (Some(board), true) = (names.0, addresses.is_valid(row)) else {
                values.append_null();
                continue;
            };
            let map = match last {
                Some((known, map)) if known == names => map,
                _ => {
                    let map = self.maps.find(self.name, Some(board), names.1)?;
                    last = Some((names, map));
                    map
                }
            };
            values.append_value((self.value)(map, addresses.value(row)));
        }
        returned(&args.args, Arc::new(values.finish()))
    }
}
