import { describe, expect, test } from "vitest";
import { aJob, aUser } from "@/test/rows";
import { mayStop } from "@/features/jobs/permissions";
import {
  fromSaved,
  isFiltered,
  jobsSearch,
  toFilter,
  toSaved,
  toOrder,
  toSorting,
} from "./searchParams";

describe("the address of the job list", () => {
  test("keeps known states and drops nonsense", () => {
    const search = jobsSearch({ state: "FAILED,NOPE,WAITING", q: 7, vc: "", junk: "x" });
    expect(search.state).toBe("WAITING,FAILED");
    expect(search.q).toBe("7");
    expect(search.vc).toBeUndefined();
    expect(search).not.toHaveProperty("junk");
  });

  test("becomes the query of the API, newest first unless the address says otherwise", () => {
    expect(toFilter(jobsSearch({ vc: "vision", owner: "mei" }))).toEqual({
      virtual_cluster: "vision",
      owner: "mei",
      ordering: "-submitted_at",
    });
  });

  test("is not filtered by order or page alone", () => {
    expect(isFiltered({ order: "name", cursor: "x" })).toBe(false);
    expect(isFiltered({ q: "a" })).toBe(true);
  });

  test("keeps spans and days, and asks for whole days in the browser's time zone", () => {
    const search = jobsSearch({
      cause: "GPU out of memory",
      since: "2026-03-01",
      until: "2026-03-02",
    });
    const filter = toFilter(search);
    expect(filter.cause).toBe("GPU out of memory");
    expect(Date.parse(filter.until ?? "") - Date.parse(filter.since ?? "")).toBe(48 * 3_600_000);
    expect(toFilter(jobsSearch({ since: "7d" })).since).toBe("7d");
    expect(jobsSearch({ since: "soon", until: "2026-05-21T25:00:00Z" })).toEqual(jobsSearch({}));
  });

  test("becomes a saved view and back, without its page", () => {
    const search = jobsSearch({ q: "a", vc: "vision", since: "7d", order: "name", cursor: "x" });
    const saved = toSaved(search);
    expect(saved).toEqual({
      search: "a",
      virtual_cluster: "vision",
      since: "7d",
      ordering: "name",
    });
    expect(fromSaved(saved)).toEqual({ q: "a", vc: "vision", since: "7d", order: "name" });
  });

  test.each([
    { since: "2026-05-21T14:00:00+02:00", until: "2026-05-21T18:00:00.5Z" },
    { since: "4w", until: "12h" },
  ])("keeps the times and spans of a saved view: %o", (times) => {
    const search = fromSaved(times);
    expect(search).toEqual(times);
    expect(toFilter(search)).toEqual({ ...times, ordering: "-submitted_at" });
    expect(toSaved(search)).toEqual(times);
  });

  test.each(["name", "-submitted_at"])("orders by %s both ways", (order) =>
    expect(toOrder(toSorting(order))).toBe(order),
  );
});

describe("who is shown a stop button", () => {
  test("the owner", () => expect(mayStop(aJob(), aUser())).toBe(true));
  test("an administrator", () =>
    expect(mayStop(aJob({ owner: "ada" }), aUser({ is_admin: true }))).toBe(true));
  test("a VC admin of its virtual cluster", () =>
    expect(
      mayStop(
        aJob({ owner: "ada" }),
        aUser({ virtual_clusters: [{ name: "vision", role: "admin" }] }),
      ),
    ).toBe(true));
  test("no one else", () => expect(mayStop(aJob({ owner: "ada" }), aUser())).toBe(false));
  test("no one once it is over", () =>
    expect(mayStop(aJob({ state: "FAILED" }), aUser())).toBe(false));
});
