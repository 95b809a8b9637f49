//! Two vendors that make summaries of their own, as servers: what they refuse is refused here, too.
//!
//! Sources: <https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand>,
//! <https://platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks> and
//! <https://platform.openai.com/docs/guides/compaction>.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, MutexGuard},
};

use harness::testing::{Answer, LoopbackServer, ReceivedRequest, anthropic, responses};
use serde_json::{Value, json};

use crate::summaries::summary;

/// So many tokens the servers take: four bytes of the body each.
pub(crate) const WINDOW: u64 = 8_000;

/// What is said once: by the user and by a tool.
pub(crate) const SECRETS: [&str; 2] = ["teal-otter-4711", "B-9-ferrous"];

/// What a vendor does in the place of giving a good summary.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Lie {
    #[default]
    None,
    /// It says nothing of what was said.
    Forgets,
    Null,
    Twice,
    Beside,
    Unsigned,
    Ends(&'static str),
    Refuses(u16, &'static str),
    Cut,
    Hangs,
    /// It makes a summary, and refuses it when it comes back.
    RefusesLater,
    /// It answers as if it had not been asked for a summary.
    Answers,
    /// Words of somebody else than the user stand among those that it keeps.
    Foreign,
    /// The summary is not the last item.
    Misplaced,
    /// Answers behind a summary hold another one that nobody has asked for.
    Slips,
}

#[derive(Default)]
pub(crate) struct State {
    /// Path, header and body of each request.
    pub(crate) requests: Vec<(String, String, Vec<u8>)>,
    /// Why requests were refused that the program should not have made.
    pub(crate) wrong: Vec<String>,
    /// All that was counted: sent and said.
    pub(crate) counted: (u64, u64),
    /// Summaries by their proof: their words, and what they stand for.
    summaries: HashMap<String, (Value, Vec<Value>)>,
    /// What thinking came after, by its proof.
    thoughts: HashMap<String, u64>,
}

pub(crate) struct Vendor {
    pub(crate) server: LoopbackServer,
    state: Arc<Mutex<State>>,
}

impl Vendor {
    pub(crate) async fn of(wire: &'static str, lie: Lie) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let server = LoopbackServer::answering(move |request| {
            let mut state = shared.lock().unwrap();
            let beta = request.header("anthropic-beta").unwrap_or_default().to_owned();
            state.requests.push((request.path().to_owned(), beta, request.body().to_vec()));
            let answered = match wire {
                "anthropic" => state.messages(request, lie),
                _ => state.responses(request, lie),
            };
            answered.unwrap_or_else(|(code, why)| {
                if lie != Lie::RefusesLater {
                    state.wrong.push(why.clone());
                }
                refusal(400, code, &why)
            })
        });
        Self { server: server.await.unwrap(), state }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The bodies that asked for a summary of the vendor's own.
    pub(crate) fn asked(&self) -> usize {
        self.state().requests.iter().filter(|it| asks_vendor(&it.0, &it.2)).count()
    }
}

/// Whether this asks for a summary of the vendor's own.
pub(crate) fn asks_vendor(path: &str, body: &[u8]) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap();
    path.ends_with("/compact") || body.get("compaction").is_some()
}

fn refusal(status: u16, code: &str, why: &str) -> Answer {
    let details = json!({"error_code": code, "error_visibility": "user_facing"});
    let kind = if status == 529 { "overloaded_error" } else { "invalid_request_error" };
    let mut error = json!({"type": kind, "message": why});
    if !code.is_empty() {
        error["details"] = details;
    }
    Answer::json(status, &json!({"type": "error", "error": error}))
}

/// Without the marks of the cache.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| *name != "cache_control");
            kept.map(|(name, value)| (name.clone(), plain(value))).collect()
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

pub(crate) fn list(body: &Value) -> Vec<Value> {
    let list = body.get("messages").or_else(|| body.get("input")).and_then(Value::as_array);
    list.unwrap().iter().map(plain).collect()
}

fn blocks(message: &Value) -> &[Value] {
    message["content"].as_array().map_or(&[], Vec::as_slice)
}

fn known(text: &str) -> String {
    let known = SECRETS.into_iter().filter(|secret| text.contains(secret));
    known.collect::<Vec<_>>().join(" and ")
}

/// What the model does next.
enum Next {
    Say(String),
    Look,
}

/// What the model does by what was said since the user spoke, and by all that it reads.
fn next(list: &[Value], all: &str) -> Next {
    let last = list.last().unwrap().to_string();
    let asked = |list: &[Value]| list.iter().rposition(|it| it.to_string().contains("Please look"));
    let looked = asked(list).map_or(9, |at| list[at..].iter().filter(|it| is_call(it)).count());
    if last.contains("Sum it up now") {
        Next::Say(summary(&known(all)))
    } else if last.contains("What do you know?") {
        Next::Say(known(all))
    } else if looked < 3 {
        Next::Look
    } else {
        Next::Say(format!("Noted. {:->300}", ""))
    }
}

fn is_call(item: &Value) -> bool {
    item["type"] == "function_call" || blocks(item).iter().any(|it| it["type"] == "tool_use")
}

type Refused = (&'static str, String);

impl State {
    fn count(&mut self, input: u64, output: u64) {
        self.counted.0 += input;
        self.counted.1 += output;
    }

    fn messages(&mut self, request: &ReceivedRequest, lie: Lie) -> Result<Answer, Refused> {
        let (body, tokens) = (request.json(), request.body().len() as u64 / 4);
        let beta = request.header("anthropic-beta").unwrap_or_default();
        let has_beta = beta.split(',').any(|it| it == "compact-2026-09-04");
        let list = list(&body);
        if tokens > WINDOW {
            return Err(("", format!("prompt is too long: {tokens} tokens > {WINDOW} maximum")));
        }
        let of_summary = |it: &&Value| it["type"] == "compaction";
        let summaries: Vec<&Value> = list.iter().flat_map(blocks).filter(of_summary).collect();
        let all = match *summaries {
            [] => list.clone(),
            _ if !has_beta => return Err(("", "`compaction` is no type of a block".to_owned())),
            [one] => {
                if !blocks(&list[0]).first().is_some_and(|it| it == one) {
                    return Err(("compaction_block_misplaced", "it is not first".to_owned()));
                }
                let proof = one["signature"].as_str().unwrap_or_default();
                let Some((said, stands_for)) = self.summaries.get(proof) else {
                    return Err(("compaction_signature_invalid", "unknown".to_owned()));
                };
                if said != one {
                    return Err(("compaction_content_mismatch", "other words".to_owned()));
                }
                if lie == Lie::RefusesLater {
                    return Err(("", "messages.1: `thinking` is bound to another one".to_owned()));
                }
                let mut all = stands_for.clone();
                if let (Some(last), Some(next)) = (all.last_mut(), list.get(1))
                    && last["role"] == next["role"]
                {
                    // It is taken for more of the last message that is summed up.
                    last["content"].as_array_mut().unwrap().push(json!("merged"));
                }
                all.extend(list[1..].iter().cloned());
                all
            }
            _ => return Err(("compaction_block_ambiguous", "two of them".to_owned())),
        };
        let mut hasher = DefaultHasher::new();
        plain(&json!([body["system"], body["tools"]])).to_string().hash(&mut hasher);
        let mut bound = vec![hasher.finish()];
        for message in &all {
            message.to_string().hash(&mut hasher);
            bound.push(hasher.finish());
        }
        for (at, message) in all.iter().enumerate() {
            for block in blocks(message).iter().filter(|it| it["type"] == "thinking") {
                let proof = block["signature"].as_str().unwrap_or_default();
                // Thinking that another model has signed is left out of the check, as the vendor drops it.
                if self.thoughts.get(proof).is_some_and(|thought| bound.get(at) != Some(thought)) {
                    let why = format!("messages.{at}: `thinking` is bound to another conversation");
                    return Err(("", why));
                }
            }
        }
        if !body["compaction"].is_null() {
            return self.summarize(&body, has_beta, all, tokens, lie);
        }
        let said = list.last().map_or("", |last| last["content"][0]["text"].as_str().unwrap_or(""));
        if said.starts_with("Refuse now.") {
            self.count(tokens, 5);
            let answer = anthropic::body().text("I do not.").stop("refusal");
            return Ok(answer.usage(tokens, 5).answer());
        }
        if said.starts_with("Fail now.") {
            return Ok(refusal(401, "", "invalid x-api-key"));
        }
        self.count(tokens, 90);
        let text = json!([body["system"], list]).to_string();
        let answer = anthropic::body().usage(tokens, 90);
        Ok(match next(&list, &text) {
            Next::Say(words) if lie == Lie::Slips && !summaries.is_empty() => {
                let block = json!({"type": "compaction", "content": "Hm.", "signature": "c2ln"});
                answer.text(words).block(block).answer()
            }
            Next::Say(words) => answer.text(words).answer(),
            Next::Look => {
                let number = self.requests.len();
                let proof = format!("thought-{number}");
                self.thoughts.insert(proof.clone(), bound[all.len()]);
                let answer = answer.thinking("I look.", &proof);
                answer.call(&format!("call_{number}"), "look", json!({"n": number})).answer()
            }
        })
    }

    fn summarize(
        &mut self,
        body: &Value,
        has_beta: bool,
        all: Vec<Value>,
        tokens: u64,
        lie: Lie,
    ) -> Result<Answer, Refused> {
        for name in ["context_management", "stop_sequences", "tool_choice", "output_config"] {
            if body.get(name).is_some() {
                return Err(("", format!("`{name}` cannot stand beside `compaction`")));
            }
        }
        if !has_beta || body["compaction"] != json!({"type": "summarize"}) {
            return Err(("", "requires anthropic-beta: compact-2026-09-04".to_owned()));
        }
        if all.last().is_some_and(is_call) {
            return Err(("compaction_incomplete_turn", "a call has no result yet".to_owned()));
        }
        let number = self.summaries.len();
        let text = Value::from(all.clone()).to_string();
        let words = match lie {
            Lie::Forgets => "Nothing.".to_owned(),
            _ => format!("The part so far, \u{201c}{number}\u{201d}: {}", known(&text)),
        };
        let proof = format!("proof-{number}");
        let mut block = json!({"type": "compaction", "content": words, "signature": proof});
        let mut answer = anthropic::body().stop("compaction").usage(0, 0);
        match lie {
            Lie::Refuses(status, code) => return Ok(refusal(status, code, "No.")),
            Lie::Null => block["content"] = Value::Null,
            Lie::Unsigned => drop(block.as_object_mut().unwrap().remove("signature")),
            Lie::Twice => answer = answer.block(block.clone()),
            Lie::Beside => answer = answer.text("Here it is."),
            Lie::Ends(reason) => answer = anthropic::body().stop(reason).usage(0, 0),
            Lie::Answers => answer = anthropic::body().text("What can I do?").usage(0, 0),
            Lie::Hangs => return Ok(answer.block(block).answer().stall_at(200)),
            _ => {}
        }
        self.summaries.insert(proof, (block.clone(), all));
        if !matches!(lie, Lie::Ends(_) | Lie::Answers) {
            answer = answer.block(block);
        }
        if lie == Lie::Cut {
            return Ok(answer.cut().answer());
        }
        // What it has cost stands among the steps alone.
        self.count(tokens, 40);
        let step = json!({"type": "compaction", "input_tokens": tokens, "output_tokens": 40});
        let mut events = answer.events();
        for event in &mut events {
            if event["type"] == "message_delta" {
                event["usage"]["iterations"] = json!([step]);
            }
        }
        let name = |event: &Value| event["type"].as_str().unwrap().to_owned();
        let lines = events.iter().map(|it| format!("event: {}\ndata: {it}\n\n", name(it)));
        Ok(Answer::sse(lines.collect::<String>()))
    }

    fn responses(&mut self, request: &ReceivedRequest, lie: Lie) -> Result<Answer, Refused> {
        let (body, tokens) = (request.json(), request.body().len() as u64 / 4);
        let list = list(&body);
        if tokens > WINDOW {
            return Err(("", format!("prompt is too long: {tokens} tokens > {WINDOW} maximum")));
        }
        let is_summary = |it: &&Value| it["type"] == "compaction";
        let last = list.iter().rposition(|it| is_summary(&it));
        let mut hidden = String::new();
        if let Some(at) = last {
            let proof = list[at]["encrypted_content"].as_str().unwrap_or_default();
            let Some((output, stands_for)) = self.summaries.get(proof) else {
                return Err(("", "it cannot be decrypted".to_owned()));
            };
            if output.as_array().is_none_or(|output| list[..=at] != output[..]) {
                return Err(("", "the output was not used as it is".to_owned()));
            }
            if lie == Lie::RefusesLater {
                return Err(("", "it cannot be verified".to_owned()));
            }
            hidden = known(&Value::from(stands_for.clone()).to_string());
        }
        if request.path().ends_with("/compact") {
            return self.compact(&body, list, &hidden, tokens, lie);
        }
        self.count(tokens, 90);
        let text = format!("{hidden}{}", Value::from(list.clone()));
        let answer = responses::body().usage(tokens, 90);
        Ok(match next(&list, &text) {
            Next::Say(words) => answer.text(words).answer(),
            Next::Look => {
                let number = self.requests.len();
                let answer = answer.reasoning(&["I look."], &format!("thought-{number}"));
                answer.call(&format!("call_{number}"), "look", json!({"n": number})).answer()
            }
        })
    }

    fn compact(
        &mut self,
        body: &Value,
        list: Vec<Value>,
        hidden: &str,
        tokens: u64,
        lie: Lie,
    ) -> Result<Answer, Refused> {
        let taken = ["model", "input", "instructions", "prompt_cache_key"];
        let other = body.as_object().unwrap().keys().find(|name| !taken.contains(&name.as_str()));
        if let Some(other) = other {
            return Err(("unknown_parameter", format!("Unknown parameter: `{other}`")));
        }
        let number = self.summaries.len();
        let proof = format!("gAAAA-{number}");
        let said = list.iter().filter(|it| it["type"] == "message" && it["role"] == "user");
        let mut output: Vec<Value> = said.cloned().collect();
        let mut item = json!({"type": "compaction", "id": format!("cmp_{number}"), "encrypted_content": proof});
        match lie {
            Lie::Refuses(status, code) => return Ok(refusal(status, code, "No.")),
            Lie::Null => item["encrypted_content"] = Value::Null,
            Lie::Twice => output.push(item.clone()),
            Lie::Foreign => {
                output.push(json!({"type": "message", "role": "system", "content": ""}))
            }
            Lie::Beside => output.push(json!({"type": "function_call", "call_id": "a"})),
            Lie::Answers => return Ok(responses::body().text("What can I do?").answer()),
            Lie::Ends(_) => item = json!({"type": "message", "role": "user", "content": "Hm."}),
            Lie::Hangs => return Ok(Answer::json(200, &json!({"object": "?"})).stall_at(4)),
            _ => {}
        }
        output.push(item);
        if lie == Lie::Misplaced {
            output.rotate_right(1);
        }
        let mut stands_for = list;
        stands_for.push(hidden.into());
        self.summaries.insert(proof, (output.clone().into(), stands_for));
        self.count(tokens, 40);
        let usage = json!({"input_tokens": tokens, "output_tokens": 40});
        Ok(Answer::json(
            200,
            &json!({
                "id": "resp_9", "object": "response.compaction", "created_at": 1, "output": output,
                "usage": usage,
            }),
        ))
    }
}
