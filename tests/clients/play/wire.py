"""The interfaces of models as the stand-in speaks them: what a request says, and how an answer is sent.

A conversation is told the same for all of them, as a list of parts `(role, kind, value)`: `text`, `call`
(name and input) and `result`. Thoughts, ids and pictures are no parts.
"""

import json
import re
import uuid
from dataclasses import dataclass, field


@dataclass
class Call:
    """A call of a tool: its name for this client, and its input, a dict or a text."""

    name: str
    input: object


@dataclass
class Answer:
    """What the model says in one answer."""

    text: str = ""
    calls: list = field(default_factory=list)
    tokens: int = 900  # How long the request was, as the model says: a client compacts by it.


def call_part(name, given):
    return ("assistant", "call", f"{name} {json.dumps(given, sort_keys=True, ensure_ascii=False)}")


def plain(content):
    """The text of a content, whatever it is made of."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(plain(item) for item in content)
    if isinstance(content, dict):
        for key in ("text", "output", "content"):
            if key in content:
                return plain(content[key])
    return ""


def new_id(prefix):
    return prefix + uuid.uuid4().hex[:20]


class Anthropic:
    """Messages of Anthropic."""

    def takes(self, path):
        return "/v1/messages" in path and "count_tokens" not in path

    def is_aside(self, body):
        return not body.get("tools")

    def parts(self, body):
        found = []
        for message in body["messages"]:
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks:
                if block["type"] == "text":
                    found.append((message["role"], "text", block["text"]))
                elif block["type"] == "tool_use":
                    found.append(call_part(block["name"], block["input"]))
                elif block["type"] == "tool_result":
                    found.append(("user", "result", plain(block.get("content"))))
        return found

    def answer(self, answer, body, path):
        blocks = [{"type": "text", "text": answer.text}] if answer.text else []
        for call in answer.calls:
            made = {"type": "tool_use", "id": new_id("toolu_01"), "name": call.name}
            blocks.append({**made, "input": call.input})
        reason = "tool_use" if answer.calls else "end_turn"
        usage = {"input_tokens": answer.tokens, "output_tokens": 50, "cache_read_input_tokens": 0}
        message = {"id": new_id("msg_01"), "type": "message", "role": "assistant"}
        message |= {"model": body.get("model", "stand-in"), "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            return {**message, "content": blocks, "stop_reason": reason}
        begun = {**message, "content": [], "stop_reason": None}
        events = [{"type": "message_start", "message": begun}]
        for index, block in enumerate(blocks):
            if block["type"] == "text":
                start = {**block, "text": ""}
                delta = {"type": "text_delta", "text": block["text"]}
            else:
                start = {**block, "input": {}}
                written = json.dumps(block["input"])
                delta = {"type": "input_json_delta", "partial_json": written}
            begin = {"type": "content_block_start", "index": index, "content_block": start}
            piece = {"type": "content_block_delta", "index": index, "delta": delta}
            events += [begin, piece, {"type": "content_block_stop", "index": index}]
        end = {"stop_reason": reason, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": end, "usage": usage})
        events.append({"type": "message_stop"})
        return [(event["type"], event) for event in events]


class Responses:
    """Responses of OpenAI."""

    def takes(self, path):
        return path.split("?")[0].endswith("/responses")

    def is_aside(self, body):
        return not body.get("tools")

    def parts(self, body):
        found = []
        for item in body["input"]:
            kind = item.get("type", "message")
            if kind == "message":
                texts = item["content"]
                texts = [texts] if isinstance(texts, str) else texts
                found += [(item["role"], "text", plain(text)) for text in texts]
            elif kind == "function_call":
                found.append(call_part(item["name"], json.loads(item["arguments"])))
            elif kind == "custom_tool_call":
                found.append(call_part(item["name"], {"input": item["input"]}))
            elif kind.endswith("_call_output"):
                found.append(("user", "result", plain(item["output"])))
        return found

    def answer(self, answer, body, path):
        items = []
        if answer.text:
            said = {"type": "output_text", "text": answer.text, "annotations": []}
            items.append({"type": "message", "id": new_id("msg_"), "role": "assistant", "content": [said]})
        for call in answer.calls:
            item = {"call_id": new_id("call_"), "name": call.name}
            if isinstance(call.input, str):
                item |= {"type": "custom_tool_call", "id": new_id("ctc_"), "input": call.input}
            else:
                written = json.dumps(call.input)
                item |= {"type": "function_call", "id": new_id("fc_"), "arguments": written}
            items.append(item)
        items = [{**item, "status": "completed"} for item in items]
        usage = {"input_tokens": answer.tokens, "output_tokens": 50}
        usage |= {"total_tokens": answer.tokens + 50}
        usage |= {"input_tokens_details": {"cached_tokens": 0}}
        usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
        response = {"id": new_id("resp_"), "object": "response", "created_at": 0, "status": "completed"}
        response |= {"model": body.get("model"), "output": items, "usage": usage}
        if not body.get("stream"):
            return response
        begun = {**response, "status": "in_progress", "output": []}
        events = [{"type": "response.created", "response": begun}]
        for index, item in enumerate(items):
            for what in ("added", "done"):
                event = {"type": f"response.output_item.{what}", "output_index": index}
                events.append({**event, "item": item})
        events.append({"type": "response.completed", "response": response})
        return [(event["type"], event) for event in events]


class Chat:
    """Chat completions of OpenAI."""

    def takes(self, path):
        return path.split("?")[0].endswith("/chat/completions")

    def is_aside(self, body):
        return not body.get("tools")

    def parts(self, body):
        found = []
        for message in body["messages"]:
            role, content = message["role"], message.get("content") or []
            if role == "tool":
                found.append(("user", "result", plain(content)))
                continue
            texts = [content] if isinstance(content, str) else content
            found += [(role, "text", plain(text)) for text in texts]
            for call in message.get("tool_calls") or []:
                made = call["function"]
                found.append(call_part(made["name"], json.loads(made["arguments"])))
        return found

    def answer(self, answer, body, path):
        calls = []
        for index, call in enumerate(answer.calls):
            made = {"name": call.name, "arguments": json.dumps(call.input)}
            calls.append({"index": index, "id": new_id("call_"), "type": "function", "function": made})
        reason = "tool_calls" if calls else "stop"
        usage = {"prompt_tokens": answer.tokens, "completion_tokens": 50}
        usage |= {"total_tokens": answer.tokens + 50}
        base = {"id": new_id("chatcmpl-"), "created": 0, "model": body.get("model")}
        message = {"role": "assistant", "content": answer.text}
        message |= {"tool_calls": calls} if calls else {}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return {**base, "object": "chat.completion", "choices": [choice], "usage": usage}

        def chunk(**values):
            return (None, {**base, "object": "chat.completion.chunk", **values})

        said = {"index": 0, "delta": message, "finish_reason": None}
        ended = {"index": 0, "delta": {}, "finish_reason": reason}
        events = [chunk(choices=[said]), chunk(choices=[ended]), chunk(choices=[], usage=usage)]
        return [*events, (None, "[DONE]")]


class Gemini:
    """generateContent of Gemini."""

    def takes(self, path):
        return "enerateContent" in path

    def is_aside(self, body):
        return not body.get("tools")

    def parts(self, body):
        found = []
        for content in body["contents"]:
            role = "assistant" if content.get("role") == "model" else "user"
            for part in content["parts"]:
                if "functionCall" in part:
                    made = part["functionCall"]
                    found.append(call_part(made["name"], made.get("args", {})))
                elif "functionResponse" in part:
                    found.append(("user", "result", plain(part["functionResponse"]["response"])))
                elif "text" in part and not part.get("thought"):
                    found.append((role, "text", part["text"]))
        return found

    def answer(self, answer, body, path):
        config = body.get("generationConfig") or {}
        schema = config.get("responseJsonSchema") or config.get("responseSchema")
        if schema:
            parts = [{"text": json.dumps(an_object_of(schema))}]
        else:
            parts = [{"text": answer.text}] if answer.text else []
        for call in answer.calls:
            made = {"name": call.name, "args": call.input, "id": new_id("call")}
            parts.append({"functionCall": made, "thoughtSignature": "c2lnbmVk"})
        usage = {"promptTokenCount": answer.tokens, "candidatesTokenCount": 50}
        usage |= {"totalTokenCount": answer.tokens + 50}
        said = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        whole = {"candidates": [said], "usageMetadata": usage, "modelVersion": "stand-in"}
        return [(None, whole)] if "streamGenerateContent" in path else whole


def an_object_of(schema):
    """The simplest value of a JSON schema: asides of Gemini CLI ask for one."""
    simple = {"string": "x", "number": 0, "integer": 0, "boolean": False, "array": []}
    if schema.get("enum"):
        return schema["enum"][-1]
    kind = str(schema.get("type", "object")).lower()
    if kind in simple:
        return simple[kind]
    return {name: an_object_of(inner) for name, inner in schema.get("properties", {}).items()}


DIALECTS = [Anthropic(), Responses(), Chat(), Gemini()]
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)


def without_reminders(parts):
    """The parts without system prompts and what a client injects, and without parts that are nothing else."""
    kept = [part for part in parts if part[0] not in ("system", "developer")]
    stripped = [(role, kind, REMINDER.sub("", value).strip()) for role, kind, value in kept]
    return [part for part in stripped if part[2] or part[1] == "result"]
