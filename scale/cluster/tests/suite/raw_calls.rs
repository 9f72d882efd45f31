//! Calls of all services of a cluster, with bytes that are no message.

use hmtt_cluster::{Secret, with_token};
use tonic::Status;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::Bytes;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;

/// Bytes that no message of the protocol has.
const NO_MESSAGE: &[u8] = b"\xff\xff\xff";

/// The calls that a scheduler answers.
pub const OF_SCHEDULER: &[&str] = &[
    "ballista.protobuf.SchedulerGrpc/CancelJob",
    "ballista.protobuf.SchedulerGrpc/CleanJobData",
    "ballista.protobuf.SchedulerGrpc/CreateUpdateSession",
    "ballista.protobuf.SchedulerGrpc/ExecuteQuery",
    "ballista.protobuf.SchedulerGrpc/ExecuteQueryPush",
    "ballista.protobuf.SchedulerGrpc/ExecutorStopped",
    "ballista.protobuf.SchedulerGrpc/GetJobMetrics",
    "ballista.protobuf.SchedulerGrpc/GetJobStatus",
    "ballista.protobuf.SchedulerGrpc/HeartBeatFromExecutor",
    "ballista.protobuf.SchedulerGrpc/PollWork",
    "ballista.protobuf.SchedulerGrpc/RegisterExecutor",
    "ballista.protobuf.SchedulerGrpc/RemoveSession",
    "ballista.protobuf.SchedulerGrpc/UpdateTaskStatus",
];

/// The calls that an executor answers.
pub const OF_EXECUTOR: &[&str] = &[
    "ballista.protobuf.ExecutorGrpc/CancelTasks",
    "ballista.protobuf.ExecutorGrpc/LaunchMultiTask",
    "ballista.protobuf.ExecutorGrpc/LaunchTask",
    "ballista.protobuf.ExecutorGrpc/RemoveJobData",
    "ballista.protobuf.ExecutorGrpc/StopExecutor",
    "arrow.flight.protocol.FlightService/DoAction",
    "arrow.flight.protocol.FlightService/DoGet",
    "arrow.flight.protocol.FlightService/GetFlightInfo",
    "arrow.flight.protocol.FlightService/GetSchema",
    "arrow.flight.protocol.FlightService/ListActions",
    "arrow.flight.protocol.FlightService/ListFlights",
    "arrow.flight.protocol.FlightService/PollFlightInfo",
];

/// Passes on the bytes of messages.
#[derive(Clone, Copy, Default)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = ();
    type Encoder = RawCodec;
    type Decoder = RawCodec;

    fn encoder(&mut self) -> RawCodec {
        RawCodec
    }

    fn decoder(&mut self) -> RawCodec {
        RawCodec
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put(buffer, message);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, _: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        Ok(Some(()))
    }
}

/// How a call of bytes that are no message ends.
pub async fn call(address: &str, path: &str, secret: Option<Secret>) -> Status {
    let endpoint = Endpoint::new(format!("http://{address}")).unwrap();
    let channel = with_token(endpoint, secret).unwrap().connect().await.unwrap();
    let mut client = Grpc::new(channel);
    client.ready().await.unwrap();
    let path = PathAndQuery::try_from(format!("/{path}")).unwrap();
    let request = tonic::Request::new(Bytes::from_static(NO_MESSAGE));
    client.unary(request, path, RawCodec).await.expect_err("it is no message")
}
