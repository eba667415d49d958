import { useQuery } from "@tanstack/react-query";
import { versions } from "@/api/cluster";
import { info } from "@/api/session";
import { pluralize } from "@/format/numbers";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { ErrorState } from "@/ui/EmptyState";
import { PageHeader } from "@/ui/PageHeader";
import { Section } from "@/ui/Section";
import { SkeletonRows } from "@/ui/Skeleton";
import { byVersion } from "./byVersion";
import css from "./AboutPage.module.css";

/** Shows which versions run: of the server, and of what each node has. */
export function AboutPage() {
  const server = useQuery(info);
  const all = useQuery(versions);
  const error = server.error ?? all.error;
  const total = Object.values(all.data?.nodes ?? {}).reduce((sum, count) => sum + count, 0);
  const retry = () => void Promise.all([server.refetch(), all.refetch()]);
  return (
    <>
      <PageHeader title="About" />
      <div className={css.page}>
        {error ? <ErrorState error={error} what="list of versions" retry={retry} /> : null}
        {!error && (!server.data || !all.data) ? <SkeletonRows rows={3} /> : null}
        {server.data && all.data ? (
          <>
            <Section title="Server">
              <DescriptionList>
                <DescriptionItem name="Version">{server.data.version}</DescriptionItem>
                <DescriptionItem name="API">
                  <a className="link" href="/api/v1/docs" target="_blank" rel="noopener">
                    Documentation
                  </a>
                </DescriptionItem>
              </DescriptionList>
            </Section>
            <Section title={`Nodes (${total.toLocaleString("en")})`}>
              {total === 0 ? <p className="dim">No node has joined yet.</p> : null}
              <dl className={css.versions}>
                {byVersion(all.data.versions ?? {}).map(({ name, found }) => (
                  <div key={name}>
                    <dt>{name}</dt>
                    <dd>
                      {found.map(({ version, count }) => (
                        <span key={version}>
                          <code>{version}</code>{" "}
                          <span className="dim">on {pluralize(count, "node")}</span>
                        </span>
                      ))}
                    </dd>
                  </div>
                ))}
              </dl>
            </Section>
          </>
        ) : null}
      </div>
    </>
  );
}
