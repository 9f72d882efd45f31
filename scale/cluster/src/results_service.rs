//! Serves the results of an executor's tasks to other executors and clients.
//!
//! A request names a result by its job, stage and partition, which become parts of a path in the
//! executor's folder. Ballista does not check the name of the job. This service does, so no file
//! outside the folder is opened.

use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use async_trait::async_trait;
use ballista_core::serde::decode_protobuf;
use ballista_core::serde::scheduler::Action as Fetch;
use ballista_executor::flight_service::BallistaFlightService;
use futures::stream::BoxStream;
use tonic::{Request, Response, Status, Streaming};

use crate::plan_check::check_job;
use crate::session::MOST_MESSAGE_BYTES;

/// Returns the service for the results in a folder.
pub fn service(folder: &str) -> FlightServiceServer<impl FlightService> {
    let service = ResultsService { results: BallistaFlightService::new(folder.to_owned()) };
    FlightServiceServer::new(service)
        .max_decoding_message_size(MOST_MESSAGE_BYTES)
        .max_encoding_message_size(MOST_MESSAGE_BYTES)
}

/// Ballista's service, restricted to requests that pass the check.
struct ResultsService {
    results: BallistaFlightService,
}

type Answers<T> = BoxStream<'static, Result<T, Status>>;

/// Checks the names in a request.
fn check(request: &[u8]) -> Result<(), Status> {
    let fetch = decode_protobuf(request);
    let fetch = fetch.map_err(|error| Status::invalid_argument(error.to_string()))?;
    let Fetch::FetchPartition { job_id, .. } = &fetch;
    let checked = check_job(job_id.as_str());
    checked.map_err(|error| Status::invalid_argument(error.strip_backtrace()))
}

fn unused<T>() -> Result<T, Status> {
    Err(Status::unimplemented("executors have results of tasks, and nothing else"))
}

#[async_trait]
impl FlightService for ResultsService {
    type DoActionStream = Answers<arrow_flight::Result>;
    type DoExchangeStream = Answers<FlightData>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListActionsStream = Answers<ActionType>;
    type ListFlightsStream = Answers<FlightInfo>;

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        check(&request.get_ref().ticket)?;
        self.results.do_get(request).await
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        check(&request.get_ref().body)?;
        self.results.do_action(request).await
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        unused()
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        unused()
    }

    async fn get_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        unused()
    }

    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        unused()
    }

    async fn get_schema(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        unused()
    }

    async fn do_put(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        unused()
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        unused()
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        unused()
    }
}
