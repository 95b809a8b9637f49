//! Checks whether an answer matches its schema and can be read as the wanted type. If an attempt is left, the
//! model gets the faults.

use std::pin::pin;

use harness_schema::{SchemaChecker, WRAPPED};
use serde_json::{Map, Value};

use super::{
    answer_value::find_value,
    spec::{OutputSpec, check_schema, last_words, no_schema},
    verifier::{AnswerVerifier, VerdictFuture, objection_of},
};
use crate::{
    Event,
    conversation::state::ConversationState,
    model_notices::{FAULTS_TOLD, not_accepted, question_in_check},
    run::{
        driver::RunDriver, sent_prefix::without_words, stop_signals::RunSignal,
        writing::write_facts,
    },
};
use harness_core::{
    error::{Error, ErrorKind},
    journal::{AnswerCheck, Fact, WantedAnswer},
    message::{CallOutcome, Message, ToolCall, ToolContent},
    provider::{OutputMode, in_words},
    tool::{DispatchOutcome, Tool},
    unwind::{Panicked, Shielded, caught},
};

/// Puts the values that a schema allows into one list in a fixed order. A schema lists values without a
/// description first, so a changed description alone would change the order.
fn choices(schema: &mut Map<String, Value>) {
    for word in ["oneOf", "anyOf"] {
        let Some(Value::Array(all)) = schema.shift_remove(word) else { continue };
        let (mut values, mut others) = (Vec::new(), Vec::new());
        for one in all {
            match one.as_object().filter(|one| one.len() == 1).and_then(|one| one.get("enum")) {
                Some(Value::Array(some)) => values.extend(some.iter().cloned()),
                _ => others.push(one),
            }
        }
        if others.is_empty() && !schema.contains_key("enum") {
            schema.insert("enum".to_owned(), Value::Array(values));
            continue;
        }
        if !values.is_empty() {
            others.push(Value::Object(Map::from_iter([("enum".to_owned(), in_order(values))])));
        }
        schema.insert(word.to_owned(), Value::Array(others));
    }
    if schema.len() == 1 && schema.get("type").is_some_and(|kind| kind == "null") {
        schema.insert("const".to_owned(), Value::Null);
    }
    if let Some(only) = schema.shift_remove("const") {
        schema.insert("enum".to_owned(), Value::Array(vec![only]));
    }
    if let Some(Value::Array(values)) = schema.shift_remove("enum") {
        schema.insert("enum".to_owned(), in_order(values));
        schema.shift_remove("type");
    }
}

fn in_order(mut values: Vec<Value>) -> Value {
    values.sort_by_cached_key(Value::to_string);
    Value::Array(values)
}

fn fault(what: &str, panicked: &Panicked) -> Error {
    Error::new(ErrorKind::Panicked, format!("{what} {panicked}"))
}

pub(crate) fn output_spec(state: &ConversationState) -> Option<&OutputSpec> {
    state.options.as_ref()?.output_spec.as_ref()
}

/// The fact with the wanted form of the answer. `None` if the run accepts any text.
pub(crate) fn wanted_fact(state: &ConversationState) -> Option<Fact> {
    output_spec(state)
        .map(|output_spec| Fact::AnswerWanted { answer: Box::new(output_spec.fact()) })
}

/// Fails if no answer can ever be read as the wanted type, or if a tool cannot check answers.
pub(crate) fn check_output_options(state: &ConversationState) -> Result<(), Error> {
    let unreadable = output_spec(state).and_then(|output_spec| output_spec.unreadable);
    if let Some(why) = unreadable.and_then(|why| why()) {
        return Err(Error::new(ErrorKind::Configuration, why));
    }
    match output_spec(state).and_then(|output_spec| output_spec.verifier.as_ref()) {
        Some((_, AnswerVerifier::Tools(tools))) => {
            tools.iter().try_for_each(|tool| check_verifier(state, tool))
        }
        _ => Ok(()),
    }
}

/// Fails if the output schema or the verifier of the resumed run has changed since the run began.
pub(crate) fn check_output_spec(state: &ConversationState) -> Result<(), Error> {
    let other = |what: &str| Err(Error::new(ErrorKind::Configuration, what));
    let wanted = state.machine.wanted();
    let verified = wanted.is_some_and(|wanted| wanted.verifications.is_some());
    let verifies = output_spec(state).is_some_and(|output_spec| output_spec.verifier.is_some());
    if verified && !verifies {
        return other(
            "the run was begun with a function that checks its answer: resume it with `verify`",
        );
    }
    if verifies && !verified {
        return other(
            "the run was begun without a function that checks its answer: resume it without `verify`",
        );
    }
    let Some(schema) = output_spec(state).and_then(|output_spec| output_spec.schema.as_ref())
    else {
        return Ok(());
    };
    match wanted.and_then(|wanted| wanted.schema.as_ref()) {
        None => other(
            "the run was begun without a type for its answer: resume it without one, and ask for the \
             value with a new message",
        ),
        // The descriptions may change while a run waits to be resumed.
        Some(wanted) if without_words(schema, &choices) == without_words(wanted, &choices) => {
            Ok(())
        }
        Some(_) => other(
            "the run was begun with another schema for its answer: resume it with the same type, or \
             begin a new run",
        ),
    }
}

/// Checks the model's answer. The answer is accepted, or the model gets the faults and answers again, or the
/// run ends because no attempt is left.
pub(crate) async fn check_answer(run: &mut RunDriver<'_>) -> Result<(), Error> {
    // Calls of an answer may have started early, even if the answer itself was not recorded.
    run.settle()?;
    let machine = &run.state.machine;
    let words = last_words(machine.transcript());
    let read = match (output_spec(run.state), machine.wanted()) {
        // Reading the type may run code of the program.
        (Some(OutputSpec { reads: Some(reads), .. }), _) => caught(|| reads(&words))
            .map_err(|panicked| fault("the type of the answer", &panicked))?,
        (_, Some(WantedAnswer { schema: Some(schema), .. })) => {
            let checker = SchemaChecker::of_answer(schema);
            let read = checker.as_ref().map_err(no_schema);
            read.and_then(|checker| find_value(&words, |value| check_schema(checker, value)))
        }
        _ => Ok(words.first().cloned().unwrap_or_default().into()),
    };
    let value = match read {
        Ok(value) => value,
        Err(faults) => return reject_answer(run, AnswerCheck::Schema, faults),
    };
    let verifier = output_spec(run.state).and_then(|output_spec| output_spec.verifier.clone());
    let Some((_, verifier)) = verifier else {
        return run.state.record(&Fact::AnswerAccepted {});
    };
    // The facts are written first: the verifier may do something that cannot be undone.
    if !write_facts(run).await? {
        return Ok(());
    }
    let fault = |panicked| fault("the function that checks the answer", &panicked);
    let read = verifier.sources();
    let verdict = match verifier {
        AnswerVerifier::Function(function) => caught(|| function(words)).map_err(fault)?,
        AnswerVerifier::Tools(tools) => verify_by_tools(run, &tools, value),
    };
    let mut verdict = pin!(Shielded::new(verdict));
    let verdict = loop {
        let told = tokio::select! {
            biased;
            signal = run.stop_signals.next_signal() => signal,
            verdict = &mut verdict => break verdict.map_err(fault)?,
        };
        match told {
            RunSignal::Stop(cause) => return run.record_interrupt(cause),
            RunSignal::Warn(warning) => run.report_warning(&warning),
        }
    };
    match verdict {
        Ok(()) => run.state.record(&Fact::AnswerAccepted {}),
        Err(why) => {
            let why = [ToolContent::Text(why)];
            let tools = run.state.agent.tools();
            let why = tools.readable_now("verify", CallOutcome::Failed, why.into());
            run.state.record(&Fact::SourcesRead { call: None, sources: read })?;
            reject_answer(run, AnswerCheck::Verifier, vec![why.as_text().into_owned()])
        }
    }
}

fn reject_answer(
    run: &mut RunDriver<'_>,
    by: AnswerCheck,
    mut faults: Vec<String>,
) -> Result<(), Error> {
    if by == AnswerCheck::Schema {
        // The program's code reads the answer as the type, and the text of its error can have any length.
        let (tools, of) = (run.state.agent.tools(), faults.len().min(FAULTS_TOLD));
        faults.iter_mut().for_each(|fault| *fault = tools.readable_part(fault, of));
    }
    let machine = &run.state.machine;
    let message = (machine.tries_left(by) > 0).then(|| {
        let mut words = not_accepted(&faults);
        // If the server has ignored the schema, the model has not received it. So the schema is added as text.
        let is_told = matches!(run.request.answer_way, None | Some(OutputMode::Words));
        let schema = machine.wanted().and_then(|wanted| wanted.schema.as_ref());
        if let (true, false, Some(schema)) = (machine.faults().is_empty(), is_told, schema) {
            words = format!("{words}\n\n{}", in_words(schema));
        }
        Message::user(words)
    });
    run.emit(Event::AnswerRejected { by, faults: &faults, message: message.as_ref() });
    run.state.record(&Fact::AnswerRejected { by, faults, message })
}

/// Fails if this tool cannot check answers.
fn check_verifier(state: &ConversationState, tool: &Tool) -> Result<(), Error> {
    let name = tool.name();
    let wrong = |what: String| Error::new(ErrorKind::Configuration, what);
    if tool.is_external() || tool.is_agent() {
        return Err(wrong(format!(
            "`verify_by` takes a tool that is a function, and `{name}` is none: call it in `verify` and say \
             what its result means"
        )));
    }
    if !tool.side_effects().may_repeat(tool.is_idempotent()) {
        return Err(wrong(format!(
            "`verify_by` takes a tool that may be repeated, since an answer is looked at again if the process \
             ends before the verdict is written down; `{name}` declares {}, and not that it is idempotent",
            tool.side_effects(),
        )));
    }
    let tools = state.agent.tools().with_only(tool.clone())?;
    let of_run = state.options.as_ref().map(|options| &options.values);
    let given = [state.values.as_ref(), of_run];
    tools.check_state(state.agent.context().values(), |needed| {
        given.into_iter().flatten().any(|values| values.has(needed.id()))
    })
}

/// The verdict of these tools about an answer.
fn verify_by_tools(run: &RunDriver<'_>, verifiers: &[Tool], answer: Value) -> VerdictFuture {
    let members = match answer {
        Value::Object(map) => map,
        other => Map::from_iter([(WRAPPED.to_owned(), other)]),
    };
    let mut calls = Vec::new();
    for tool in verifiers {
        let arguments = Value::Object(members_for_tool(tool, &members));
        let call = ToolCall::new("verify", tool.name(), arguments.to_string());
        let context = run.calls.contexts.for_verdict(&call, run.over.token());
        calls.push((run.state.agent.tools().with_only(tool.clone()), call, context));
    }
    Box::pin(async move {
        let mut wrong = Vec::new();
        for (tools, call, context) in calls {
            let tools = tools.map_err(|error| error.to_string())?;
            match tools.dispatch_call(&call, &context).await {
                DispatchOutcome::Result(result) if result.outcome() == CallOutcome::Succeeded => {}
                DispatchOutcome::Result(result) => wrong.push(result.as_text().into_owned()),
                DispatchOutcome::Waits { .. } => wrong.push(question_in_check(call.name())),
            }
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => objection_of(Err::<(), _>(wrong.join("\n"))),
        }
    })
}

/// The members of an answer for which the tool has a parameter.
fn members_for_tool(tool: &Tool, members: &Map<String, Value>) -> Map<String, Value> {
    match tool.input_schema().get("properties") {
        Some(Value::Object(taken)) => {
            let taken = members.iter().filter(|(name, _)| taken.contains_key(*name));
            taken.map(|(name, value)| (name.clone(), value.clone())).collect()
        }
        _ => members.clone(),
    }
}
