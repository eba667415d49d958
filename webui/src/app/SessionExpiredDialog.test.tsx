import { QueryClient } from "@tanstack/react-query";
import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { queryClient } from "@/api/queryClient";
import { jobCount } from "@/api/jobs";
import { me, sessionEnded } from "@/api/session";
import { renderPage } from "@/test/render";
import { aUser } from "@/test/rows";
import { refusal, serve } from "@/test/server";
import { SessionExpiredDialog } from "./SessionExpiredDialog";

vi.mock("@/live/live", () => ({ live: { reconnectNow: () => undefined } }));

beforeEach(() => {
  document.cookie = "skep_csrf=x";
  queryClient.clear();
});

test("finding_u10: whoever was logged in stays known when the server knows the session no more", async () => {
  const queries = new QueryClient();
  queries.setQueryData(me.queryKey, aUser());
  serve({ "GET /me": refusal(401, "not_authenticated", "Log in.") });
  const user = await queries.fetchQuery({ ...me, staleTime: 0 });
  expect(user?.username).toBe("mei");
  expect(queries.getQueryData(sessionEnded.queryKey)).toBe(true);
});

test("finding_u10: no user was logged in: no user is", async () => {
  const queries = new QueryClient();
  serve({ "GET /me": refusal(401, "not_authenticated", "Log in.") });
  expect(await queries.fetchQuery(me)).toBeNull();
  expect(queries.getQueryData(sessionEnded.queryKey)).not.toBe(true);
});

test("finding_u10: a refusal of a request from before the login ends nothing", async () => {
  queryClient.setQueryData(me.queryKey, aUser());
  const requests = serve({
    "GET /jobs/count": refusal(401, "not_authenticated", "Log in."),
    "GET /me": aUser(),
  });
  await expect(queryClient.fetchQuery({ ...jobCount({}), retry: false })).rejects.toThrow(
    "Log in.",
  );
  await waitFor(() => expect(requests).toHaveLength(2));
  await waitFor(() => expect(queryClient.isFetching()).toBe(0));
  expect(queryClient.getQueryData(sessionEnded.queryKey)).not.toBe(true);
});

test("finding_u10: the dialog logs the same person in again, after a wrong password too", async () => {
  const requests = serve({ "POST /auth/login": refusal(401, "login_failed", "Wrong password.") });
  renderPage(<SessionExpiredDialog user={aUser()} />);
  expect(await screen.findByLabelText("User name")).toHaveValue("mei");
  await userEvent.type(screen.getByLabelText("Password"), "wrong");
  await userEvent.click(screen.getByRole("button", { name: "Log in" }));
  expect(await screen.findByRole("alert")).toHaveTextContent("Wrong password.");
  await waitFor(() => expect(requests).toHaveLength(1));
  expect(await requests[0]?.json()).toEqual({ username: "mei", password: "wrong" });
});
