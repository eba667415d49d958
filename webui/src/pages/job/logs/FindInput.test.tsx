import { fireEvent, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { renderPage } from "@/test/render";
import { FindInput } from "./FindInput";

async function draw(whole: boolean, found: number[]) {
  const onWhole = vi.fn();
  const props = { needle: "nan", whole, found, target: null, onWhole };
  const rest = { onNeedle: vi.fn(), onNext: vi.fn(), onPrevious: vi.fn() };
  renderPage(<FindInput {...props} {...rest} />);
  fireEvent.keyDown(await screen.findByRole("searchbox"), { key: "Enter" });
  return { onWhole, onNext: rest.onNext };
}

test("finding U7: what the lines at hand lack is looked for in the whole log", async () => {
  const { onWhole } = await draw(false, []);
  expect(onWhole).toHaveBeenCalledWith(false);
  expect(screen.getByRole("status").textContent).not.toBe("0");
});

test("with the whole log at hand, 0 is 0", async () => {
  const { onWhole, onNext } = await draw(true, []);
  expect(onWhole).not.toHaveBeenCalled();
  expect(onNext).toHaveBeenCalled();
  expect(screen.getByRole("status").textContent).toBe("0");
});
