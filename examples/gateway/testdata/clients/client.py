"""What users do with the official client, against a gateway at sys.argv[1]."""
import sys

import openai

url = sys.argv[1]
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
hello = [{"role": "user", "content": "Hello."}]

assert [m.id for m in client.models.list()] == ["demo"]
assert client.models.retrieve("demo").id == "demo"

answer = client.chat.completions.create(model="demo", messages=hello, max_tokens=4)
assert answer.choices[0].message.content.split() == ["Every", "request", "waits", "its"], answer
assert answer.usage.completion_tokens == 4 and answer.created > 1_700_000_000

stream = client.chat.completions.create(
    model="demo", messages=hello, max_tokens=4, stream=True, stream_options={"include_usage": True})
chunks = list(stream)
assert chunks[0].choices[0].delta.role == "assistant"
assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices).split()[-1] == "its"
assert chunks[-1].usage.completion_tokens == 4

with client.chat.completions.stream(model="demo", messages=hello) as helper:
    for _ in helper:
        pass
    final = helper.get_final_completion().choices[0]
    assert final.finish_reason == "stop" and final.message.content.startswith("Every request waits its turn")

tools = [{"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}]
call = client.chat.completions.create(model="demo", messages=hello, tools=tools).choices[0]
assert call.finish_reason == "tool_calls" and call.message.tool_calls[0].function.name == "clock"
told = hello + [call.message, {"role": "tool", "tool_call_id": call.message.tool_calls[0].id, "content": "12:00"}]
assert client.chat.completions.create(model="demo", messages=told, tools=tools).choices[0].message.content

assert len(client.chat.completions.create(model="demo", messages=hello, n=3, max_tokens=1).choices) == 3
assert len(client.completions.create(model="demo", prompt=["a", "b"], max_tokens=1).choices) == 2

aborted = client.chat.completions.create(model="demo", messages=hello, max_tokens=4000, stream=True)
next(iter(aborted))
aborted.close()

try:
    client.chat.completions.create(model="other", messages=hello)
    raise AssertionError("a model that does not exist")
except openai.NotFoundError as e:
    assert e.code == "model_not_found", e.code
try:
    client.chat.completions.create(model="demo", messages=hello, max_tokens=0)
    raise AssertionError("no tokens")
except openai.BadRequestError as e:
    assert e.param == "max_tokens", e.param

# sys.argv[2] answers 429 with Retry-After once, and then passes on.
patient = openai.OpenAI(base_url=sys.argv[2] + "/v1", api_key="none", max_retries=2)
assert patient.chat.completions.create(model="demo", messages=hello, max_tokens=1).choices
print("all is well")
