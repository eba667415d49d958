import { Button, PasswordInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { isApiError } from "@/api/errors";
import { confirmMe } from "@/api/session";
import { Dialog } from "@/ui/Dialog";
import { FormDialog } from "@/ui/FormDialog";

interface Refused {
  password: boolean;
  again: () => void;
}

/** For what needs a login of the last minutes: `guard(error, again)` opens a dialog that asks for the
 * password when the server wants it, and then does it again; the answer is whether it did. */
export function useConfirmed(): [
  guard: (error: unknown, again: () => void) => boolean,
  dialog: ReactNode,
] {
  const [refused, setRefused] = useState<Refused>();
  function guard(error: unknown, again: () => void) {
    if (!isApiError(error) || error.code !== "confirmation_required") return false;
    setRefused({ password: error.details["password"] !== false, again });
    return true;
  }
  const close = () => setRefused(undefined);
  if (!refused) return [guard, null];
  const dialog = refused.password ? (
    <ConfirmDialog
      onClose={close}
      onDone={() => {
        close();
        refused.again();
      }}
    />
  ) : (
    <Dialog opened onClose={close} title="Log in again">
      <p style={{ marginBottom: 14 }}>
        You logged in more than ten minutes ago. Log in again, then repeat this.
      </p>
      <Button
        component="a"
        href={`/api/v1/auth/sso/start?next=${encodeURIComponent(location.pathname)}`}
      >
        Log in again
      </Button>
    </Dialog>
  );
  return [guard, dialog];
}

function ConfirmDialog({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const [password, setPassword] = useState("");
  const confirmation = useMutation({ mutationFn: () => confirmMe(password), onSuccess: onDone });
  return (
    <FormDialog
      open
      title="Confirm that it is you"
      verb="Confirm"
      mutation={confirmation}
      onClose={onClose}
    >
      <PasswordInput
        label="Your password"
        autoComplete="current-password"
        data-autofocus
        required
        withAsterisk={false}
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
      />
    </FormDialog>
  );
}
