import { render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { TabCount, tabProps, Tabs } from "./Tabs";

const LEFT = { first: 0, last: 700 };

test("the chosen tab is brought into sight where the row is wider than the screen", () => {
  vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(390);
  vi.spyOn(HTMLElement.prototype, "offsetWidth", "get").mockReturnValue(90);
  vi.spyOn(HTMLElement.prototype, "offsetLeft", "get").mockImplementation(function (
    this: HTMLElement,
  ) {
    return LEFT[this.id as keyof typeof LEFT] ?? 0;
  });
  const draw = (active: string) => (
    <Tabs label="Parts" active={active}>
      {Object.keys(LEFT).map((id) => (
        <a key={id} id={id} href={`#${id}`} {...tabProps(id === active)}>
          {id} {id === "last" ? <TabCount value={2000} /> : null}
        </a>
      ))}
    </Tabs>
  );
  const { rerender } = render(draw("first"));
  rerender(draw("last"));
  expect(screen.getByRole("navigation", { name: "Parts" }).scrollLeft).toBe(550);
  expect(screen.getByRole("link", { current: "page" })).toHaveTextContent("last 2,000");
});
