import { Button } from "@mantine/core";
import { isApiError } from "@/api/errors";
import { Icon } from "@/ui/Icon";
import css from "./Stale.module.css";

/** Somebody saved while one was editing: own changes are made anew on theirs, for another look. */
export function Stale({ error, onReload }: { error: unknown; onReload: () => void }) {
  const told = isApiError(error, 409) ? error.message : "";
  return (
    <div className={css.stale} role="alert">
      <Icon name="warning" />
      <p>
        <b>Somebody was faster.</b> {told || "The cells were changed while you were editing."} Your
        changes are still here and not saved.
      </p>
      <Button variant="default" onClick={onReload}>
        Reload and keep my changes
      </Button>
    </div>
  );
}
