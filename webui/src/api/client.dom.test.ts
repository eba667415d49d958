import { expect, test } from "vitest";
import { refusal, serve } from "@/test/server";
import { ApiError } from "./errors";
import { check, submit } from "./jobs";
import { login } from "./session";

test("a change carries the CSRF token of the cookie", async () => {
  document.cookie = "skep_csrf=abc123";
  const requests = serve({ "POST /auth/login": { username: "mei" } });
  await login("mei", "secret");
  expect(requests[0]?.headers.get("X-CSRFToken")).toBe("abc123");
});

test("without a cookie the token is fetched first", async () => {
  document.cookie = "skep_csrf=; expires=Thu, 01 Jan 1970 00:00:00 GMT";
  const requests = serve({
    "GET /auth/csrf": () => {
      document.cookie = "skep_csrf=fresh";
      return {};
    },
    "POST /auth/login": {},
  });
  await login("mei", "secret");
  expect(requests.map((request) => new URL(request.url).pathname)).toEqual([
    "/api/v1/auth/csrf",
    "/api/v1/auth/login",
  ]);
  expect(requests[1]?.headers.get("X-CSRFToken")).toBe("fresh");
});

test("a refusal is thrown with the server's words", async () => {
  serve({ "POST /auth/login": refusal(400, "login_failed", "The password is wrong.") });
  await expect(login("mei", "wrong")).rejects.toThrow(ApiError);
});

test("a job file travels as it is written, with the token that makes a repeat harmless", async () => {
  const requests = serve({ "POST /jobs": { id: "1" }, "POST /jobs/check": { valid: true } });
  await check("name: x\n");
  await submit("name: x\n", "token-1");
  const [checked, submitted] = requests;
  expect(await checked?.text()).toBe("name: x\n");
  expect(submitted?.headers.get("Content-Type")).toBe("application/yaml");
  expect(submitted?.headers.get("Idempotency-Key")).toBe("token-1");
});
