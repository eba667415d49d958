import { Button, Checkbox, PasswordInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { errorMessage } from "@/api/errors";
import { changePassword, me } from "@/api/session";
import { RegistryCredentials } from "@/features/registries/RegistryCredentials";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { EmptyState } from "@/ui/EmptyState";
import { PageHeader } from "@/ui/PageHeader";
import { tabProps, Tabs } from "@/ui/Tabs";
import { notifySuccess } from "@/ui/notify";
import { ApiTokens } from "./ApiTokens";
import { NotificationSettings } from "./NotificationSettings";
import { OwnEmail } from "./OwnEmail";
import { RecentActivity } from "./RecentActivity";
import { SecondFactor } from "./SecondFactor";
import { SecurityKeys } from "./SecurityKeys";
import { Sessions } from "./Sessions";
import { SingleSignOnLink } from "./SingleSignOnLink";
import { SshKeys } from "./SshKeys";
import css from "./SettingsPage.module.css";

const SECTIONS = {
  profile: { title: "Profile", Content: Profile },
  security: { title: "Password and MFA", Content: Security },
  tokens: { title: "API tokens", Content: Tokens },
  registries: { title: "Registries", Content: Registries },
  "ssh-keys": { title: "SSH keys", Content: OwnSshKeys },
  notifications: { title: "Notifications", Content: Notifications },
};
type SectionName = keyof typeof SECTIONS;
const NAMES = Object.keys(SECTIONS) as SectionName[];

/** What users set for themselves; each section has an address. */
export function SettingsPage() {
  const { section } = useParams({ from: "/shell/settings/$section" });
  const active = NAMES.find((name) => name === section);
  if (!active) return <EmptyState title="There is no such section of the settings" />;
  const { Content } = SECTIONS[active];
  return (
    <>
      <PageHeader title="Settings" />
      <Tabs label="Settings" active={active}>
        {NAMES.map((name) => (
          <Link
            key={name}
            to="/settings/$section"
            params={{ section: name }}
            {...tabProps(name === active)}
          >
            {SECTIONS[name].title}
          </Link>
        ))}
      </Tabs>
      <div className={css.page}>
        <Content />
      </div>
    </>
  );
}

function Profile() {
  const { data: user } = useQuery(me);
  if (!user) return null;
  return (
    <>
      <section className={css.block}>
        <DescriptionList>
          <DescriptionItem name="User name">{user.username}</DescriptionItem>
          <DescriptionItem name="E-mail">{user.email || "–"}</DescriptionItem>
          <DescriptionItem name="Rights">
            {user.is_admin ? "administrator" : "user"}
          </DescriptionItem>
          <DescriptionItem name="Virtual clusters">
            {user.virtual_clusters.length === 0 ? "none" : null}
            {user.virtual_clusters.map(({ name, role }, number) => (
              <span key={name}>
                {number > 0 ? ", " : ""}
                <Link to="/jobs" search={{ vc: name }} className="link">
                  {name}
                </Link>
                {role === "admin" ? <span className="dim"> (VC admin)</span> : null}
              </span>
            ))}
          </DescriptionItem>
        </DescriptionList>
      </section>
      <OwnEmail user={user} />
      <section className={css.block}>
        <RecentActivity username={user.username} />
      </section>
    </>
  );
}

function Tokens() {
  return (
    <section className={css.block}>
      <ApiTokens />
    </section>
  );
}

function Notifications() {
  return (
    <section className={css.block}>
      <NotificationSettings />
    </section>
  );
}

function Registries() {
  return (
    <div className={css.block}>
      <RegistryCredentials />
    </div>
  );
}

function OwnSshKeys() {
  return (
    <section className={css.block}>
      <SshKeys />
    </section>
  );
}

function Security() {
  const { refused } = useSearch({ from: "/shell/settings/$section" });
  return (
    <>
      <section className={css.block}>
        <PasswordForm />
      </section>
      <section className={css.block}>
        <SecondFactor />
      </section>
      <section className={css.block}>
        <SecurityKeys />
      </section>
      <SingleSignOnLink refused={refused} />
      <section className={css.block}>
        <Sessions />
      </section>
    </>
  );
}

function PasswordForm() {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [keep, setKeep] = useState(false);
  const change = useMutation({
    mutationFn: () => changePassword(current, next, keep),
    onSuccess: () => {
      setCurrent("");
      setNext("");
      notifySuccess("Your password is changed");
    },
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    change.mutate();
  }
  return (
    <form onSubmit={submit} className={css.form}>
      <h2 className={css.title}>Password</h2>
      <div className={css.fields}>
        <PasswordInput
          label="Current password"
          autoComplete="current-password"
          value={current}
          onChange={(event) => setCurrent(event.currentTarget.value)}
        />
        <PasswordInput
          label="New password"
          autoComplete="new-password"
          value={next}
          onChange={(event) => setNext(event.currentTarget.value)}
        />
        <Button
          type="submit"
          variant="default"
          loading={change.isPending}
          disabled={!current || !next}
        >
          Change
        </Button>
      </div>
      <Checkbox
        mt={10}
        label="Keep my API tokens (other sessions end in any case)"
        checked={keep}
        onChange={(event) => setKeep(event.currentTarget.checked)}
      />
      {change.error ? (
        <p className={css.error} role="alert">
          {errorMessage(change.error)}
        </p>
      ) : null}
    </form>
  );
}
