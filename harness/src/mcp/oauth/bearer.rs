//! The HTTP client below the protocol: it adds the token to each request, and sends each request once.

use std::{collections::HashMap, sync::Arc};

use reqwest::{
    Client,
    header::{HeaderName, HeaderValue},
};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::{
        common::client_side_sse::BoxedSseResponse,
        streamable_http_client::{
            AuthRequiredError, StreamableHttpClient, StreamableHttpError,
            StreamableHttpPostResponse, StreamableHttpResponseLimits,
        },
    },
};

use super::Authorization;

type Headers = HashMap<HeaderName, HeaderValue>;
type Failed = StreamableHttpError<reqwest::Error>;

pub(in super::super) fn way(client: Client, authorization: Option<Arc<Authorization>>) -> Way {
    Way { client, authorization }
}

/// A client whose requests are authorized, if the program has set an authorization.
#[derive(Clone)]
pub(in super::super) struct Way {
    client: Client,
    authorization: Option<Arc<Authorization>>,
}

impl Way {
    /// The token for this address, renewed if it is old.
    async fn token(&self, uri: &str) -> Option<String> {
        self.authorization.as_ref()?.token(uri).await
    }
}

impl StreamableHttpClient for Way {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            limits,
        )
        .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let token = self.token(&uri).await;
        let sent = self.client.post_message_with_response_limits(
            uri,
            message,
            session_id,
            token.clone(),
            custom_headers,
            limits,
        );
        let answer = sent.await;
        let Some(authorization) = &self.authorization else { return answer };
        match answer {
            Err(Failed::AuthRequired(err)) => {
                authorization.refused(401, &err.www_authenticate_header, token.as_deref());
                Err(Failed::AuthRequired(err))
            }
            Err(Failed::InsufficientScope(err)) => {
                authorization.refused(403, &err.www_authenticate_header, token.as_deref());
                Err(Failed::InsufficientScope(err))
            }
            // The answer has no header that says what is required.
            Err(Failed::UnexpectedServerResponse(text)) if text.starts_with("HTTP 401") => {
                authorization.refused(401, "", token.as_deref());
                Err(Failed::AuthRequired(AuthRequiredError::new(String::new())))
            }
            answer => answer,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failed> {
        let token = self.token(&uri).await;
        self.client.delete_session(uri, session_id, token, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxedSseResponse, Failed> {
        let most = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            most,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: Headers,
        most: usize,
    ) -> Result<BoxedSseResponse, Failed> {
        let token = self.token(&uri).await;
        self.client
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                token,
                custom_headers,
                most,
            )
            .await
    }
}
