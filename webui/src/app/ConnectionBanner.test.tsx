import { screen, waitFor } from "@testing-library/react";
import { useQuery } from "@tanstack/react-query";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { client, unwrap } from "@/api/client";
import { errorMessage } from "@/api/errors";
import { renderPage } from "@/test/render";
import { StaleNote } from "@/ui/StaleNote";
import { serve } from "@/test/server";
import { ConnectionBanner } from "./ConnectionBanner";

vi.mock("@/live/live", () => ({
  live: { reconnectNow: () => undefined },
  useLiveStatus: () => "open",
}));

const ask = () => unwrap(client.GET("/api/v1/info"));
const stopServer = () =>
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));

test("finding U16: a server that is gone is shown above the page, with the time of what it shows", async () => {
  serve({ "GET /info": {} });
  renderPage(<ConnectionBanner />);
  await ask();
  expect(screen.queryByRole("alert")).toBeNull();
  stopServer();
  const failure = await ask().catch((error: unknown) => error);
  expect(await screen.findByRole("alert")).toHaveTextContent(
    /No connection to the server.*What you see is from \d\d:\d\d:\d\d/,
  );
  expect(errorMessage(failure)).toBe("The server cannot be reached. Is the network up?");

  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(screen.getByRole("alert")).toBeVisible();
  serve({ "GET /info": {} });
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  await waitFor(() => expect(screen.queryByRole("alert")).toBeNull());
});

test("finding U16: a proxy without its server is no answer, a refusal in JSON is one", async () => {
  renderPage(<ConnectionBanner />);
  serve({ "GET /info": () => new Response("<h1>Bad gateway</h1>", { status: 502 }) });
  await ask().catch(() => undefined);
  expect(await screen.findByRole("alert")).toBeVisible();
  serve({});
  await ask().catch(() => undefined);
  await waitFor(() => expect(screen.queryByRole("alert")).toBeNull());
});

function Page() {
  const list = useQuery({
    queryKey: ["version"],
    queryFn: () => unwrap(client.GET("/api/v1/cluster")),
  });
  return (
    <>
      <ConnectionBanner />
      <StaleNote query={list} what="cluster" />
      <p>Version {list.data?.version}</p>
      <button onClick={() => void list.refetch()}>Read</button>
    </>
  );
}

test("what failed without a connection is read again at the first answer, without a note", async () => {
  serve({ "GET /cluster": { version: "1" } });
  renderPage(<Page />);
  await screen.findByText("Version 1");
  stopServer();
  await userEvent.click(screen.getByRole("button", { name: "Read" }));
  expect(await screen.findByRole("alert")).toHaveTextContent("No connection to the server");

  let answer: (body: unknown) => void = () => undefined;
  const requests = serve({
    "GET /info": {},
    "GET /cluster": () => new Promise((resolve) => (answer = resolve)),
  });
  await ask();
  await waitFor(() =>
    expect(requests.filter(({ url }) => url.endsWith("/cluster"))).toHaveLength(1),
  );
  await waitFor(() => expect(screen.queryByRole("alert")).toBeNull());
  expect(screen.queryByText(/could not be read again/)).toBeNull();
  answer({ version: "2" });
  expect(await screen.findByText("Version 2")).toBeVisible();
});
