//! Prints columns of addresses as hexadecimal digits: `0x13000000`.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt64Type};
use arrow::error::ArrowError;

use crate::addresses::is_wide;

/// Finds the columns of addresses in a result, and converts them.
#[derive(Debug, Default)]
pub struct AddressColumns {
    places: Vec<usize>,
    /// The result's columns, in which columns of addresses are texts.
    schema: Option<SchemaRef>,
}

impl AddressColumns {
    /// Chooses the columns that are addresses and have a type of numbers.
    pub fn new(schema: &Schema, addresses: &[bool]) -> Self {
        let fields = schema.fields().iter().zip(addresses).enumerate();
        let is_address = |field: &Field, found: bool| found && is_wide(field.data_type());
        let places: Vec<usize> = fields
            .filter(|(_, (field, found))| is_address(field, **found))
            .map(|(place, _)| place)
            .collect();
        let mut fields: Vec<Arc<Field>> = schema.fields().to_vec();
        for place in &places {
            fields[*place] = Arc::new(Field::clone(&fields[*place]).with_data_type(DataType::Utf8));
        }
        let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
        AddressColumns { places, schema: Some(Arc::new(schema)) }
    }

    /// Returns the rows with addresses as texts.
    ///
    /// # Errors
    /// The rows have other columns.
    pub fn with_digits<'a>(
        &self,
        batch: &'a RecordBatch,
    ) -> Result<Cow<'a, RecordBatch>, ArrowError> {
        let Some(schema) = self.schema.as_ref().filter(|_| !self.places.is_empty()) else {
            return Ok(Cow::Borrowed(batch));
        };
        let mut columns = batch.columns().to_vec();
        for place in &self.places {
            columns[*place] = digits(&columns[*place]);
        }
        Ok(Cow::Owned(RecordBatch::try_new(schema.clone(), columns)?))
    }
}

fn digits(column: &ArrayRef) -> ArrayRef {
    let text = |address: u64| format!("{address:#x}");
    let texts: StringArray = match column.as_primitive_opt::<UInt64Type>() {
        Some(numbers) => numbers.iter().map(|number| number.map(text)).collect(),
        // Tables have signed numbers, so the upper half of 64-bit addresses is negative.
        None => {
            let numbers = column.as_primitive::<Int64Type>();
            numbers.iter().map(|number| number.map(|signed| text(signed as u64))).collect()
        }
    };
    Arc::new(texts)
}
