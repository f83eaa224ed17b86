"""Fifty schemas of the kinds that agents send: parameters of tools, and models of pydantic. CASES: pairs of a prompt and
a schema."""
import datetime
import enum
import typing
import uuid

import pydantic

TEXT, WHOLE, NUMBER, YES_NO = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}


def said(schema, description):
    return {**schema, "description": description}


def parameters(required, closed=False, **properties):
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return schema | {"additionalProperties": False} if closed else schema


def one_of(*values):
    return {"type": "string", "enum": list(values)}


def list_of(items, **bounds):
    return {"type": "array", "items": items, **bounds}


TOOLS = [
    ("Read the first 40 lines of src/main.c.", "read_file", parameters(
        "path", path=said(TEXT, "Path of the file"), offset=said(WHOLE, "First line"), limit=said(WHOLE, "Number of lines"))),
    ("Write 'hello' into notes.txt.", "write_file", parameters("path content", True, path=TEXT, content=TEXT)),
    ("Rename the variable x to count in app.py.", "edit_file", parameters(
        "path old_text new_text", True, path=TEXT, old_text=TEXT, new_text=TEXT, all=YES_NO)),
    ("List the files of the folder docs.", "list_folder", parameters("path", path=TEXT, depth={"type": "integer", "minimum": 1, "maximum": 5}, hidden=YES_NO)),
    ('Search for "import" in all Python files.', "search_text", parameters(
        "pattern", pattern=TEXT, glob=TEXT, case=YES_NO, context={"type": "integer", "minimum": 0, "maximum": 20})),
    ("Run the tests.", "run_command", parameters(
        "command", command=list_of(TEXT, minItems=1), timeout={"type": "number", "exclusiveMinimum": 0, "maximum": 600}, folder={"type": ["string", "null"]})),
    ("Commit the change with a message.", "git_commit", parameters("message", True, message=TEXT, files=list_of(TEXT), amend={"type": "boolean", "default": False})),
    ("What is the weather in Paris?", "get_weather", parameters("city", city=TEXT, unit=one_of("celsius", "fahrenheit"), days={"type": "integer", "minimum": 1, "maximum": 7})),
    ("Find a flight from Rome to Oslo on 2 May 2025.", "find_flights", parameters(
        "from to date", **{"from": {"type": "string", "pattern": "^[A-Z]{3}$"}, "to": {"type": "string", "pattern": "^[A-Z]{3}$"}},
        date={"type": "string", "format": "date"}, seats={"type": "integer", "minimum": 1, "maximum": 9}, cabin=one_of("economy", "business", "first"))),
    ("Send an email to Ann about the meeting.", "send_email", parameters(
        "to subject body", True, to=list_of({"type": "string", "format": "email"}, minItems=1, maxItems=10), subject={"type": "string", "maxLength": 100}, body=TEXT)),
    ("Create an event tomorrow at nine.", "create_event", parameters(
        "title start end", title=TEXT, start={"type": "string", "format": "date-time"}, end={"type": "string", "format": "date-time"},
        guests=list_of(TEXT), place=TEXT, repeats=one_of("never", "daily", "weekly"))),
    ("What is 12 times 7?", "calculate", parameters("operation a b", True, operation=one_of("add", "subtract", "multiply", "divide"), a=NUMBER, b=NUMBER)),
    ("Translate 'good morning' to French.", "translate", parameters("text target", text=TEXT, source=TEXT, target={"type": "string", "pattern": "^[a-z]{2}$"})),
    ("Show me restaurants near the station.", "find_places", parameters(
        "query", query=TEXT, near=parameters("latitude longitude", True, latitude={"type": "number", "minimum": -90, "maximum": 90},
                                             longitude={"type": "number", "minimum": -180, "maximum": 180}),
        radius={"type": "integer", "minimum": 100, "maximum": 50000}, open_now=YES_NO)),
    ("Buy three apples and a bread.", "place_order", parameters(
        "items", True, items=list_of(parameters("name quantity", True, name=TEXT, quantity={"type": "integer", "minimum": 1, "maximum": 99}, note=TEXT), minItems=1, maxItems=20),
        express=YES_NO)),
    ("Query the table of users for those from Spain.", "query_table", parameters(
        "table", table=TEXT, columns=list_of(TEXT), where=list_of(parameters(
            "column operator value", True, column=TEXT, operator=one_of("=", "!=", "<", ">", "like"), value={"type": ["string", "number", "boolean", "null"]})),
        limit={"type": "integer", "minimum": 1, "maximum": 1000})),
    ("Open the page of the project.", "browse", parameters("url", url={"type": "string", "format": "uri"}, wait={"type": "number", "minimum": 0, "maximum": 30})),
    ("Click on the button 'Save'.", "act", {"type": "object", "anyOf": [
        parameters("kind x y", True, kind={"const": "click"}, x={"type": "integer", "minimum": 0}, y={"type": "integer", "minimum": 0}),
        parameters("kind text", True, kind={"const": "type"}, text=TEXT), parameters("kind keys", True, kind={"const": "press"}, keys=list_of(TEXT, maxItems=4))]}),
    ("Play some jazz.", "play_music", parameters("query", query=TEXT, volume={"type": "integer", "minimum": 0, "maximum": 100, "multipleOf": 5}, shuffle=YES_NO)),
    ("Set the light in the kitchen to blue.", "set_light", parameters(
        "room", room=one_of("kitchen", "bath", "hall"), color={"type": "string", "pattern": "^#[0-9a-f]{6}$"}, brightness={"type": "number", "minimum": 0, "maximum": 1})),
    ("Remember that my name is Tom.", "remember", parameters("key value", key=TEXT, value={})),
    ("Plan the work in steps.", "update_plan", parameters(
        "plan", True, explanation=TEXT, plan=list_of(parameters("step status", True, step=TEXT, status=one_of("pending", "in_progress", "completed"))))),
    ("Draw a chart of sales.", "draw_chart", parameters(
        "kind series", kind=one_of("bar", "line", "pie"), title=TEXT, series=list_of(parameters("label values", True, label=TEXT, values=list_of(NUMBER)), minItems=1))),
    ("Store the settings.", "store", parameters("name settings", name=TEXT, settings={"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}})),
    ("Ask the user for the size.", "ask_user", parameters("question", question=TEXT, choices=list_of(TEXT, minItems=2, maxItems=4), free=YES_NO)),
]


class Color(enum.Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


class Address(pydantic.BaseModel):
    street: str
    city: str
    zip: str = pydantic.Field(pattern=r"^\d{5}$")
    country: typing.Optional[str] = None


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0, le=130)
    email: typing.Optional[str] = None
    address: typing.Optional[Address] = None


class Company(pydantic.BaseModel):
    name: str
    founded: datetime.date
    employees: list[Person]


class Review(pydantic.BaseModel):
    sentiment: typing.Literal["positive", "negative", "neutral"]
    score: float = pydantic.Field(ge=0, le=1)
    reasons: list[str] = pydantic.Field(max_length=5)


class Recipe(pydantic.BaseModel):
    title: str
    minutes: int = pydantic.Field(gt=0, lt=600)
    ingredients: dict[str, str]
    steps: list[str]


class Movie(pydantic.BaseModel):
    title: str
    year: int
    genres: list[typing.Literal["drama", "comedy", "action", "horror"]]
    rating: typing.Optional[float] = pydantic.Field(None, ge=0, le=10)


class Point(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    x: float
    y: float


class Circle(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    kind: typing.Literal["circle"]
    center: Point
    radius: float = pydantic.Field(gt=0)


class Box(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    kind: typing.Literal["box"]
    corners: tuple[Point, Point]


class Drawing(pydantic.BaseModel):
    shapes: list[typing.Union[Circle, Box]]
    color: Color = Color.RED


class Shape(pydantic.BaseModel):
    shape: typing.Union[Circle, Box] = pydantic.Field(discriminator="kind")


class Folder(pydantic.BaseModel):
    name: str
    folders: list["Folder"] = []


class Sum(pydantic.BaseModel):
    left: typing.Union[int, "Sum"]
    right: typing.Union[int, "Sum"]


class Ticket(pydantic.BaseModel):
    id: uuid.UUID
    title: str = pydantic.Field(min_length=3, max_length=80)
    priority: int = pydantic.Field(ge=1, le=5)
    labels: list[str] = pydantic.Field(max_length=4)
    assignee: typing.Union[str, None]
    created: datetime.datetime


class Invoice(pydantic.BaseModel):
    number: str = pydantic.Field(pattern=r"^INV-\d{4,8}$")
    total: float
    currency: typing.Literal["EUR", "USD"]
    lines: list[tuple[str, int, float]]


class Quiz(pydantic.BaseModel):
    question: str
    choices: list[str] = pydantic.Field(min_length=2, max_length=4)
    answer: int = pydantic.Field(ge=0, le=3)


class Entities(pydantic.BaseModel):
    people: list[str]
    places: list[str]
    dates: list[datetime.date]


class Answer(pydantic.BaseModel):
    thoughts: str
    answer: typing.Union[str, int, float, bool, None]


class Matrix(pydantic.BaseModel):
    rows: list[list[int]]


class Config(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    debug: bool = False
    level: typing.Literal["info", "warning", "error"] = "info"
    ports: list[pydantic.conint(ge=1, le=65535)] = []
    timeout: typing.Optional[datetime.timedelta] = None


class Weather(pydantic.BaseModel):
    city: str
    temperature: float
    sky: typing.Literal["clear", "cloudy", "rain"]
    wind: typing.Optional[int] = None


class Summary(pydantic.BaseModel):
    headline: str = pydantic.Field(max_length=120)
    points: list[str] = pydantic.Field(min_length=1, max_length=5)
    language: str = pydantic.Field(min_length=2, max_length=2)


class Product(pydantic.BaseModel):
    name: str
    price: float = pydantic.Field(multiple_of=0.01, ge=0, le=10000)
    tags: list[str] | None = None
    stock: bool


class Step(pydantic.BaseModel):
    explanation: str
    output: str


class Solution(pydantic.BaseModel):
    steps: list[Step]
    final: str


class Meeting(pydantic.BaseModel):
    when: datetime.datetime
    minutes: typing.Literal[15, 30, 60]
    who: list[str] = pydantic.Field(min_length=1)
    online: bool = True


class Host(pydantic.BaseModel):
    name: str
    v4: typing.Optional[str] = pydantic.Field(None, json_schema_extra={"format": "ipv4"})


class Book(pydantic.BaseModel):
    title: str
    author: str
    pages: int = pydantic.Field(gt=0)
    chapters: list[str] = []


class Chat(pydantic.BaseModel):
    messages: list[dict[str, str]]


class Verdict(pydantic.BaseModel):
    correct: bool
    confidence: float = pydantic.Field(ge=0, le=1)
    comment: typing.Optional[str] = None


MODELS = [
    ("Invent a person.", Person), ("Invent a small company with two employees.", Company), ("Is this review positive? 'I like it.'", Review),
    ("Give me a recipe for a soup.", Recipe), ("Name a movie.", Movie), ("Draw a red circle.", Drawing), ("Draw a box.", Shape),
    ("Describe a small tree of folders.", Folder), ("Write 1 + (2 + 3) as a tree.", Sum), ("Open a ticket: the printer is on fire.", Ticket),
    ("Write an invoice for two chairs.", Invoice), ("Invent a quiz question.", Quiz), ("Find the entities: 'Ann met Bob in Rome on 3 May 2021.'", Entities),
    ("What is the capital of France?", Answer), ("Give me the identity matrix of size 2.", Matrix), ("Write the settings of a server.", Config),
    ("How is the weather in Oslo?", Weather), ("Summarize: 'The cat sat on the mat. It was warm.'", Summary), ("Invent a product.", Product),
    ("Solve 3x = 12 in steps.", Solution), ("Plan a meeting with Ann.", Meeting), ("Describe a host of a network.", Host), ("Name a book.", Book),
    ("Write a short chat of two people.", Chat), ("Is 7 a prime number?", Verdict)]

CASES = ([(f"{prompt} Answer with one call of the tool {name} in JSON.",
           parameters("name arguments", True, name={"const": name}, arguments=schema)) for prompt, name, schema in TOOLS]
         + [(f"{prompt} Answer in JSON.", model) for prompt, model in MODELS])


def cases():
    """Pairs of a prompt and a JSON Schema."""
    return [(prompt, schema if isinstance(schema, dict) else schema.model_json_schema()) for prompt, schema in CASES]


if __name__ == "__main__":
    assert len(CASES) == 50 and all(isinstance(schema, dict) for _, schema in cases())
