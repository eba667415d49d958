import { Button, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { errorMessage } from "@/api/errors";
import { decideDeviceLogin, deviceLogin, me } from "@/api/session";
import type { DeviceLogin, TokenScope } from "@/api/types";
import { LIFETIMES, MONTH_S, SCOPE_CHOICES } from "@/features/tokens/scopes";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { RelativeTime } from "@/ui/Time";
import css from "./SettingsPage.module.css";

/** Where `skep login --sso` sends its user: shows who asks to be logged in, and allows or denies
 * it. */
export function DevicePage() {
  const { code } = useSearch({ from: "/shell/device" });
  return (
    <>
      <PageHeader title="Log in a program" />
      <div className={css.page}>
        <section className={css.block}>
          {code ? <Asked key={code} code={code} /> : <CodeForm />}
        </section>
      </div>
    </>
  );
}

function CodeForm() {
  const navigate = useNavigate();
  const [code, setCode] = useState("");
  function submit(event: FormEvent) {
    event.preventDefault();
    void navigate({ to: "/device", search: { code: code.trim() } });
  }
  return (
    <form onSubmit={submit} className={css.form}>
      <p>Type the code that skep login --sso shows.</p>
      <TextInput
        label="Code"
        placeholder="XXXX-XXXX"
        autoComplete="off"
        autoCapitalize="characters"
        spellCheck={false}
        autoFocus
        required
        withAsterisk={false}
        maw={240}
        value={code}
        onChange={(event) => setCode(event.currentTarget.value)}
      />
      <div>
        <Button type="submit">Continue</Button>
      </div>
    </form>
  );
}

function Asked({ code }: { code: string }) {
  const found = useQuery(deviceLogin(code));
  return (
    <QueryState query={found} what="login that waits for this code" rows={4}>
      {(login) => <Decision code={code} login={login} />}
    </QueryState>
  );
}

function Decision({ code, login }: { code: string; login: DeviceLogin }) {
  const { data: user } = useQuery(me);
  const [scope, setScope] = useState<TokenScope>(login.scope);
  const [lifetime, setLifetime] = useState(String(MONTH_S));
  const decision = useMutation({
    mutationFn: (allow: boolean) => decideDeviceLogin(code, allow, scope, Number(lifetime)),
  });
  if (decision.isSuccess) {
    return (
      <p role="status">
        {decision.variables
          ? "Allowed: the program is logged in within seconds. You can close this page; its token is among your API tokens."
          : "Denied: the program got nothing."}
      </p>
    );
  }
  return (
    <div className={css.form}>
      <p>
        <b>{login.name}</b> asks to act as <b>{user?.username}</b>. Allow it only if you started it
        yourself, and it shows the code <b>{code.toUpperCase()}</b>.
      </p>
      <DescriptionList>
        <DescriptionItem name="From the address">{login.address}</DescriptionItem>
        <DescriptionItem name="Program">{login.user_agent || "unknown"}</DescriptionItem>
        <DescriptionItem name="Asked">
          <RelativeTime at={login.created_at} />
        </DescriptionItem>
      </DescriptionList>
      <Select
        label="It may"
        data={Object.entries(SCOPE_CHOICES).map(([value, label]) => ({ value, label }))}
        value={scope}
        onChange={(value) => value && setScope(value as TokenScope)}
        allowDeselect={false}
        maw={360}
      />
      <Select
        label="Until it has to ask again"
        data={LIFETIMES}
        value={lifetime}
        onChange={(value) => value && setLifetime(value)}
        allowDeselect={false}
        maw={360}
      />
      {decision.error ? (
        <p className={css.error} role="alert">
          {errorMessage(decision.error)}
        </p>
      ) : null}
      <div style={{ display: "flex", gap: 10 }}>
        <Button loading={decision.isPending} onClick={() => decision.mutate(true)}>
          Allow
        </Button>
        <Button
          variant="default"
          disabled={decision.isPending}
          onClick={() => decision.mutate(false)}
        >
          Deny
        </Button>
      </div>
    </div>
  );
}
