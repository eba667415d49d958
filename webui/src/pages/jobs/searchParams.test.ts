import { describe, expect, test } from "vitest";
import { aJob, aUser } from "@/test/rows";
import { mayStop } from "@/features/jobs/permissions";
import { isFiltered, jobsSearch, toFilter, toOrder, toSorting } from "./searchParams";

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
