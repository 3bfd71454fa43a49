"""Writes records with Confluent's serializers, which register the schemas.

Each line of standard input is a record, a JSON object: `servers`, `topic`, `key`, `format`,
`version` of the schema, and `registry`, the settings of Confluent's registry client. `message` is
the message type of a Protobuf record. With `file`, the schema is written to that file and the
record to the topic `local_topic` too, without a frame. The response to each line is the line
`written`.
"""

import io
import json
import sys

import fastavro
from confluent_kafka import KafkaException, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

RECORD = {
    "name": "Ångström",
    "price": 42,
    "rate": -1.5,
    "ready": True,
    "note": "first",
    "gone": None,
    "tag": "RED",
    "parts": [{"size": 5}, {"size": 7}],
    "labels": {"k": "v"},
}


def avro_schema(version):
    part = {"type": "record", "name": "Part", "fields": [{"name": "size", "type": "int"}]}
    fields = [
        {"name": "name", "type": "string"},
        {"name": "price", "type": "long"},
        {"name": "rate", "type": "double"},
        {"name": "ready", "type": "boolean"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "gone", "type": ["null", "string"]},
        {"name": "tag", "type": {"type": "enum", "name": "Tag", "symbols": ["NONE", "RED"]}},
        {"name": "parts", "type": {"type": "array", "items": part}},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
    ]
    if version > 1:
        # At the front, so that a reader with the first version reads nothing correctly.
        fields.insert(0, {"name": "origin", "type": "string", "default": ""})
    return {"type": "record", "name": "Order", "fields": fields}


def avro(client, spec):
    schema = avro_schema(spec["version"])
    record = dict(RECORD, origin="till 7") if spec["version"] > 1 else RECORD
    plain = io.BytesIO()
    fastavro.schemaless_writer(plain, fastavro.parse_schema(schema), record)
    text = json.dumps(schema)
    serializer = AvroSerializer(client, text)
    return lambda context: serializer(record, context), plain.getvalue(), text.encode()


def add_order(parent, name, scope, version):
    """Adds a message type with the fields of the record."""
    kind = descriptor_pb2.FieldDescriptorProto
    order = parent.add(name=name)
    part = order.nested_type.add(name="Part")
    part.field.add(name="size", number=1, type=kind.TYPE_SINT32, label=kind.LABEL_OPTIONAL)
    entry = order.nested_type.add(name="LabelsEntry")
    entry.options.map_entry = True
    for number, field in enumerate(["key", "value"], 1):
        entry.field.add(name=field, number=number, type=kind.TYPE_STRING, label=kind.LABEL_OPTIONAL)
    scope = f"{scope}.{name}"
    fields = [
        ("name", kind.TYPE_STRING, None),
        ("price", kind.TYPE_INT64, None),
        ("rate", kind.TYPE_DOUBLE, None),
        ("ready", kind.TYPE_BOOL, None),
        ("note", kind.TYPE_STRING, None),
        ("tag", kind.TYPE_ENUM, ".Tag"),
        ("parts", kind.TYPE_MESSAGE, f"{scope}.Part"),
        ("labels", kind.TYPE_MESSAGE, f"{scope}.LabelsEntry"),
    ]
    if version > 1:
        # All numbers of fields differ from those of the first version.
        fields.insert(0, ("origin", kind.TYPE_STRING, None))
    for number, (field, of_type, type_name) in enumerate(fields, 1):
        repeated = field in ("parts", "labels")
        label = kind.LABEL_REPEATED if repeated else kind.LABEL_OPTIONAL
        order.field.add(name=field, number=number, type=of_type, type_name=type_name, label=label)


def protobuf(client, spec):
    """The message types have the indexes [0], which is written as one byte, [1, 1] and [2]."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    tag = file.enum_type.add(name="Tag")
    tag.value.add(name="NONE", number=0)
    tag.value.add(name="RED", number=1)
    add_order(file.message_type, "First", "", spec["version"])
    holder = file.message_type.add(name="Holder")
    holder.nested_type.add(name="Unused")
    add_order(holder.nested_type, "Inner", ".Holder", spec["version"])
    add_order(file.message_type, "Order", "", spec["version"])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName(spec["message"]))
    record = {name: value for name, value in RECORD.items() if value is not None}
    message = order(**dict(record, tag=1))
    serializer = ProtobufSerializer(order, client, {"use.deprecated.format": False})
    files = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    return lambda context: serializer(message, context), message.SerializeToString(), files


def json_schema(client, spec):
    properties = {"name": {"type": "string"}, "price": {"type": "integer"}}
    if spec["version"] > 1:
        properties["origin"] = {"type": "string"}
    schema = {"type": "object", "title": "Order", "properties": properties}
    text = json.dumps(schema)
    serializer = JSONSerializer(text, client)
    return lambda context: serializer(RECORD, context), json.dumps(RECORD).encode(), text.encode()


WRITERS = {"AVRO": avro, "PROTOBUF": protobuf, "JSON": json_schema}


def delivered(error, _):
    if error is not None:
        raise KafkaException(error)


def write(spec):
    client = SchemaRegistryClient(spec["registry"])
    serialize, plain, schema = WRITERS[spec["format"]](client, spec)
    value = serialize(SerializationContext(spec["topic"], MessageField.VALUE))
    producer = Producer({"bootstrap.servers": spec["servers"]})
    producer.produce(spec["topic"], key=spec["key"], value=value, on_delivery=delivered)
    if "file" in spec:
        with open(spec["file"], "wb") as file:
            file.write(schema)
        local = spec["local_topic"]
        producer.produce(local, key=spec["key"], value=plain, on_delivery=delivered)
    if producer.flush(60) != 0:
        sys.exit("records are left")


for line in sys.stdin:
    write(json.loads(line))
    print("written", flush=True)
