import { describe, expect, test } from "vitest";
import { errorMessage, toApiError } from "./errors";

describe("an error of the API", () => {
  test("keeps its code, its sentence and its numbers", () => {
    const error = toApiError(409, {
      code: "quota_exceeds_cluster",
      message: "The cluster has 8.",
      details: { has: 8 },
    });
    expect(error.code).toBe("quota_exceeds_cluster");
    expect(errorMessage(error)).toBe("The cluster has 8.");
    expect(error.details).toEqual({ has: 8 });
  });

  test("shows what is wrong with each field of a form", () => {
    const error = toApiError(400, {
      code: "invalid",
      message: "Some fields are not valid.",
      details: { fields: { username: ["Taken."], quotas: { A100: ["Not negative."] } } },
    });
    expect(error.fields).toEqual({ username: "Taken.", quotas: "A100: Not negative." });
    expect(errorMessage(error)).toBe("Taken. A100: Not negative.");
  });

  test("is understandable when a proxy answered instead", () => {
    expect(errorMessage(toApiError(502, null))).toBe("The server answered with status 502.");
  });

  test("of the network is reported as such", () => {
    expect(errorMessage(new TypeError("Failed to fetch"))).toContain("cannot be reached");
  });
});
