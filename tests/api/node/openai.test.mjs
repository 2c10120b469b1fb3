// The official OpenAI client against a live server. Run by tests/api/test_openai.py.
import assert from "node:assert/strict";
import test from "node:test";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.INGOT_URL, apiKey: "test", maxRetries: 0 });
const model = "smollm2";
const question = [{ role: "user", content: "What is the capital city of France? Answer in one sentence." }];

test("models", async () => {
  const list = await client.models.list();
  assert.equal(list.data[0].object, "model");
  const one = await client.models.retrieve(list.data[0].id);
  assert.equal(one.id, list.data[0].id);
  await assert.rejects(client.models.retrieve("nobody"), OpenAI.NotFoundError);
});

test("chat", async () => {
  const answer = await client.chat.completions.create({ model, messages: question, temperature: 0, max_tokens: 32 });
  assert.match(answer.choices[0].message.content, /Paris/);
  assert.equal(answer.object, "chat.completion");
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  assert.ok(answer._request_id.startsWith("req_"));
});

test("stream", async () => {
  const stream = await client.chat.completions.create({
    model, messages: question, temperature: 0, max_tokens: 32, stream: true, stream_options: { include_usage: true },
  });
  let text = "", finish = null, usage = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.match(text, /Paris/);
  assert.equal(finish, "stop");
  assert.ok(usage.completion_tokens > 3);
});

test("stream helper", async () => {
  const runner = client.chat.completions.stream({ model, messages: question, temperature: 0, max_tokens: 32 });
  const deltas = [];
  runner.on("content", (delta) => deltas.push(delta));
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.content, deltas.join(""));
});

test("stop strings", async () => {
  const answer = await client.chat.completions.create({ model, messages: question, temperature: 0, max_tokens: 64, stop: ["Paris"] });
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.ok(!answer.choices[0].message.content.includes("Paris"));
});

test("length", async () => {
  const answer = await client.chat.completions.create({ model, messages: question, temperature: 0, max_tokens: 2 });
  assert.equal(answer.choices[0].finish_reason, "length");
  assert.equal(answer.usage.completion_tokens, 2);
});

test("n choices differ and repeat with a seed", async () => {
  const ask = () => client.chat.completions.create({
    model, messages: [{ role: "user", content: "Write one sentence about the sea." }], n: 3, seed: 7, temperature: 1.2, max_tokens: 24,
  });
  const [a, b] = [await ask(), await ask()];
  assert.deepEqual(a.choices.map((c) => c.index), [0, 1, 2]);
  assert.deepEqual(a.choices.map((c) => c.message.content), b.choices.map((c) => c.message.content));
  assert.ok(new Set(a.choices.map((c) => c.message.content)).size > 1);
});

test("logprobs", async () => {
  const answer = await client.chat.completions.create({
    model, messages: question, temperature: 0, max_tokens: 5, logprobs: true, top_logprobs: 3,
  });
  const content = answer.choices[0].logprobs.content;
  assert.equal(content.length, 5);
  for (const entry of content) {
    assert.equal(entry.top_logprobs.length, 3);
    assert.equal(entry.top_logprobs[0].token, entry.token);
    assert.ok(entry.logprob <= 0 && entry.logprob >= entry.top_logprobs[1].logprob);
  }
  assert.equal(content.map((e) => e.token).join(""), answer.choices[0].message.content);
});

test("logit bias forbids and forces", async () => {
  const plain = await client.chat.completions.create({ model, messages: question, temperature: 0, max_tokens: 1 });
  const banned = await client.chat.completions.create({
    model, messages: question, temperature: 0, max_tokens: 1, logprobs: true, logit_bias: { 504: -100 },
  });
  assert.ok(typeof plain.choices[0].message.content === "string");
  assert.ok(typeof banned.choices[0].message.content === "string");
  const forced = await client.chat.completions.create({
    model, messages: question, temperature: 0, max_tokens: 3, logit_bias: { 28: 1000 },
  });
  assert.equal(new Set(forced.choices[0].message.content).size, 1);
});

test("text completion with echo and logprobs", async () => {
  const answer = await client.completions.create({
    model, prompt: "The capital of France is", temperature: 0, max_tokens: 4, echo: true, logprobs: 2,
  });
  const { text, logprobs } = answer.choices[0];
  assert.ok(text.startsWith("The capital of France is"));
  assert.equal(logprobs.tokens.join(""), text);
  assert.equal(logprobs.token_logprobs[0], null);
  assert.ok(logprobs.token_logprobs.slice(1).every((p) => p <= 0));
  assert.equal(logprobs.text_offset[1], logprobs.tokens[0].length);
});

test("prompt forms", async () => {
  const two = await client.completions.create({ model, prompt: ["One two", "Three four"], max_tokens: 3, temperature: 0 });
  assert.equal(two.choices.length, 2);
  const ids = await client.completions.create({ model, prompt: [504, 3575, 282], max_tokens: 3, temperature: 0 });
  assert.equal(ids.choices.length, 1);
});

test("parts, developer role, several system messages", async () => {
  const answer = await client.chat.completions.create({
    model, temperature: 0, max_tokens: 16,
    messages: [
      { role: "system", content: "Answer briefly." },
      { role: "developer", content: "Use English." },
      { role: "user", content: [{ type: "text", text: "What is the capital" }, { type: "text", text: " of France?" }] },
    ],
  });
  assert.ok(answer.choices[0].message.content.length > 0);
});

test("errors have the client's classes", async () => {
  await assert.rejects(client.chat.completions.create({ model, messages: [] }), OpenAI.BadRequestError);
  await assert.rejects(
    client.chat.completions.create({ model, messages: [{ role: "user", content: "a ".repeat(60000) }] }),
    (e) => e instanceof OpenAI.BadRequestError && e.code === "context_length_exceeded");
  await assert.rejects(client.embeddings.create({ model, input: "x" }), OpenAI.NotFoundError);
});

test("abort ends the work on the server", async () => {
  const controller = new AbortController();
  const stream = await client.chat.completions.create(
    { model, messages: question, max_tokens: 5000, stream: true, ignore_eos: true },
    { signal: controller.signal });
  let n = 0;
  try {
    for await (const chunk of stream) if (chunk && ++n === 3) controller.abort();
  } catch (e) {
    assert.ok(e instanceof OpenAI.APIUserAbortError);
  }
  const health = process.env.INGOT_URL.replace("/v1", "/health");
  for (let i = 0; i < 50; i++) {
    const state = await (await fetch(health)).json();
    if (state.active_requests === 0) return;
    await new Promise((r) => setTimeout(r, 20));
  }
  assert.fail("the request still runs a second after the abort");
});
