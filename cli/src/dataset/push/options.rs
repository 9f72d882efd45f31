//! Defines the arguments of `hmtt dataset push`: `hmtt-push` parses them, `hmtt` completes and
//! describes them.

use std::path::PathBuf;

use clap::Parser;

/// Copy the parts of a data set to an object store, where `hmtt sql` and databases read them
#[derive(Debug, Parser)]
#[command(
    name = "hmtt dataset push",
    version,
    after_help = "Parts that are there already are left out, so it can be repeated, and goes on after an interruption. \
    Credentials and endpoints are those of the usual environment variables: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, \
    AWS_REGION, AWS_ENDPOINT_URL, AWS_ALLOW_HTTP; GOOGLE_SERVICE_ACCOUNT; AZURE_STORAGE_ACCOUNT_NAME, \
    AZURE_STORAGE_ACCOUNT_KEY."
)]
pub struct Arguments {
    /// Folder of the data set
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or az://CONTAINER/FOLDER
    #[arg(value_name = "URL")]
    pub url: String,
    /// Read all parts from the object store, and compare their BLAKE3 hashes with those of the
    /// files
    #[arg(long)]
    pub verify: bool,
    /// Where parts were merged after they had been copied, remove those that the data set does not
    /// have any more
    #[arg(long)]
    pub replace: bool,
}
