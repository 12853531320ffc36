"""OpenAPI descriptions as traffic."""

from __future__ import annotations

import json

import pytest

from benchkit.errors import InputError
from benchkit.plugins.traffic.openapi import read_description, traffic_of_description

DESCRIPTION = b"""
openapi: 3.0.3
servers: [{url: https://api.example/v1/}]
paths:
  /items/{id}:
    parameters: [{name: id, in: path, schema: {type: integer, minimum: 5}}]
    get:
      parameters:
        - {name: fields, in: query, required: true, example: "a,b"}
        - {name: page, in: query, schema: {type: integer}}
        - {name: X-Kind, in: header, required: true, schema: {enum: [big, small]}}
    delete: {}
  /items:
    post:
      requestBody:
        content: {application/json: {schema: {$ref: '#/components/schemas/Item'}}}
components:
  schemas:
    Item:
      properties:
        name: {type: string, example: shoe}
        sizes: {type: array, items: {type: number}}
        parent: {$ref: '#/components/schemas/Item'}
"""


def test_each_operation_is_a_request_with_example_values() -> None:
    description = read_description(DESCRIPTION)
    assert description is not None
    found = traffic_of_description(description, "api.yaml", safe_only=False)
    get, delete, post = found.requests
    assert (get.kind, get.path, dict(get.headers)) == (
        "GET /v1/items/{id}",
        "/v1/items/5?fields=a%2Cb",
        {"X-Kind": "big"},
    )
    assert (delete.method, delete.path) == ("DELETE", "/v1/items/5")
    body = json.loads(post.body or "")
    assert (body["name"], body["sizes"]) == ("shoe", [1])
    assert body["parent"]["name"] == "shoe", "references may form a circle"
    assert post.request.headers == {"Content-Type": "application/json"}


def test_operations_that_change_data_are_left_out_by_default() -> None:
    description = read_description(DESCRIPTION)
    assert description is not None
    found = traffic_of_description(description, "api.yaml")
    assert [each.method for each in found.requests] == ["GET"]
    assert found.notes[1] == "2 operations that may change the server are left out"
    with pytest.raises(InputError, match="no operation is left"):
        traffic_of_description({"openapi": "3.1.0", "paths": {"/a": {"post": {}}}}, "api.yaml")


@pytest.mark.parametrize("data", [b"openapi: [", b"openapi: 3", b'{"log": {}}', b"GET / openapi"])
def test_other_files_are_no_description(data: bytes) -> None:
    assert read_description(data) is None
