// What users do with the official client, against a gateway at the first argument.
import assert from "node:assert";
import OpenAI from "openai";

const [url, limited] = process.argv.slice(2);
const client = new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "Hello." }];

const models = [];
for await (const m of client.models.list()) models.push(m.id);
assert.deepEqual(models, ["demo"]);
assert.equal((await client.models.retrieve("demo")).id, "demo");

const answer = await client.chat.completions.create({ model: "demo", messages, max_tokens: 4 });
assert.equal(answer.choices[0].message.content.trim(), "Every request waits its");
assert.equal(answer.usage.completion_tokens, 4);

const chunks = [];
for await (const c of await client.chat.completions.create({
  model: "demo", messages, max_tokens: 4, stream: true, stream_options: { include_usage: true },
})) chunks.push(c);
assert.equal(chunks[0].choices[0].delta.role, "assistant");
assert.equal(chunks.at(-1).usage.completion_tokens, 4);

const helper = client.chat.completions.stream({ model: "demo", messages });
assert.match(await helper.finalContent(), /^Every request waits its turn/);

const tools = [{ type: "function", function: { name: "clock", parameters: { type: "object", properties: {} } } }];
const call = (await client.chat.completions.create({ model: "demo", messages, tools })).choices[0];
assert.equal(call.finish_reason, "tool_calls");
assert.equal(call.message.tool_calls[0].function.name, "clock");

assert.equal((await client.chat.completions.create({ model: "demo", messages, n: 3, max_tokens: 1 })).choices.length, 3);

const aborted = await client.chat.completions.create({ model: "demo", messages, max_tokens: 4000, stream: true });
for await (const _ of aborted) {
  aborted.controller.abort();
  break;
}

await assert.rejects(client.chat.completions.create({ model: "other", messages }), (e) => e.status === 404 && e.code === "model_not_found");
await assert.rejects(client.chat.completions.create({ model: "demo", messages, max_tokens: 0 }), (e) => e.status === 400 && e.param === "max_tokens");

const patient = new OpenAI({ baseURL: limited + "/v1", apiKey: "none", maxRetries: 2 });
assert.ok((await patient.chat.completions.create({ model: "demo", messages, max_tokens: 1 })).choices[0]);
console.log("all is well");
