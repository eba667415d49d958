import { Button } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { cursorOf } from "@/api/pages";
import type { Page } from "@/api/types";
import { Icon } from "@/ui/Icon";
import css from "./Pager.module.css";

/** Pages are found by cursor: there is a next and a previous one, and no number of pages. */
export function Pager({ page }: { page: Page<unknown> }) {
  const navigate = useNavigate({ from: "/jobs" });
  if (!page.next && !page.previous) return null;
  const go = (address: string | null) =>
    void navigate({ search: (old) => ({ ...old, cursor: cursorOf(address) }) });
  return (
    <nav className={css.pager} aria-label="Pages">
      <Button
        variant="subtle"
        color="gray"
        disabled={!page.previous}
        leftSection={<Icon name="left" size={14} />}
        onClick={() => go(page.previous)}
      >
        Previous
      </Button>
      <Button
        variant="subtle"
        color="gray"
        disabled={!page.next}
        rightSection={<Icon name="right" size={14} />}
        onClick={() => go(page.next)}
      >
        Next
      </Button>
    </nav>
  );
}
