import { Button, PasswordInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { disableMfa, mfa, renewRecoveryCodes } from "@/api/session";
import { CodeInput } from "@/features/auth/CodeInput";
import { MfaSetup, RecoveryCodes } from "@/features/auth/MfaSetup";
import { Dialog } from "@/ui/Dialog";
import { ErrorState } from "@/ui/EmptyState";
import { FormDialog } from "@/ui/FormDialog";
import { StaleNote } from "@/ui/StaleNote";
import { RelativeTime } from "@/ui/Time";
import { notifySuccess } from "@/ui/notify";
import css from "./ApiTokens.module.css";

type Dialog = "setup" | "renew" | "disable";

/** Multi-factor authentication of the own account. */
export function SecondFactor() {
  const state = useQuery(mfa);
  const queries = useQueryClient();
  const [dialog, setDialog] = useState<Dialog>();
  function close() {
    setDialog(undefined);
    void queries.invalidateQueries({ queryKey: mfa.queryKey });
  }
  const enabled = state.data?.app ?? state.data?.enabled ?? false;
  return (
    <>
      <header className={css.head}>
        <div>
          <h2 className={css.title}>Multi-factor authentication</h2>
          <p className="dim">
            A code of an authenticator app beside the password
            {state.data?.by_policy ? "; required by your administrator" : ""}.
          </p>
        </div>
        {state.data && !enabled ? (
          <Button variant="default" onClick={() => setDialog("setup")}>
            Set up
          </Button>
        ) : null}
      </header>
      <StaleNote query={state} what="state of multi-factor authentication" />
      {state.isError && !state.data ? (
        <ErrorState error={state.error} what="state of multi-factor authentication" />
      ) : null}
      {state.data && enabled ? (
        <div className={css.row}>
          <b className={css.name}>Authenticator app</b>
          <span className="dim">
            {state.data.enabled_at ? (
              <>
                since <RelativeTime at={state.data.enabled_at} /> ·{" "}
              </>
            ) : null}
            {state.data.recovery_codes_left} recovery codes left
          </span>
          <Button variant="default" ml="auto" onClick={() => setDialog("renew")}>
            New recovery codes
          </Button>
          <Button variant="default" onClick={() => setDialog("disable")}>
            Switch off
          </Button>
        </div>
      ) : null}
      {dialog === "setup" ? (
        <Dialog
          opened
          onClose={close}
          title="Set up an authenticator app"
          closeOnClickOutside={false}
        >
          <MfaSetup onDone={close} />
        </Dialog>
      ) : null}
      {dialog === "renew" ? <RenewDialog onClose={close} /> : null}
      {dialog === "disable" ? <DisableDialog onClose={close} /> : null}
    </>
  );
}

function RenewDialog({ onClose }: { onClose: () => void }) {
  const [code, setCode] = useState("");
  const renewal = useMutation({ mutationFn: () => renewRecoveryCodes(code) });
  if (renewal.data) {
    return (
      <Dialog opened onClose={onClose} title="Recovery codes" closeOnClickOutside={false}>
        <RecoveryCodes codes={renewal.data.recovery_codes} onDone={onClose} />
      </Dialog>
    );
  }
  return (
    <FormDialog open title="New recovery codes" verb="Replace" mutation={renewal} onClose={onClose}>
      <p>The former recovery codes stop working.</p>
      <CodeInput value={code} onChange={setCode} />
    </FormDialog>
  );
}

function DisableDialog({ onClose }: { onClose: () => void }) {
  const [password, setPassword] = useState("");
  const disabling = useMutation({
    mutationFn: () => disableMfa(password),
    onSuccess: () => {
      notifySuccess("Your password alone logs you in now");
      onClose();
    },
  });
  return (
    <FormDialog
      open
      title="Switch multi-factor authentication off"
      verb="Switch off"
      mutation={disabling}
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
