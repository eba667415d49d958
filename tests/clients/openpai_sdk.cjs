// Calls every method of the clients of OpenPAI's JavaScript SDK and prints, as JSON, what each gave:
// {value} or {error: {code, status}}.

const sdk = require("@microsoft/openpai-js-sdk");

const job = (name) => ({
  protocolVersion: 2,
  name,
  type: "job",
  prerequisites: [{ type: "dockerimage", name: "image", uri: "test/image:1" }],
  taskRoles: {
    worker: {
      dockerImage: "image",
      resourcePerInstance: { gpu: 1, cpu: 1, memoryMB: 1024 },
      commands: ["true"],
    },
  },
  defaults: { virtualCluster: "vision" },
});

async function main() {
  const server = { pai_uri: process.env.PAI_URI, https: false };
  const as = (username) => ({ ...server, username, password: process.env.PAI_PASSWORD });
  const found = {};
  const call = async (name, what) => {
    try {
      found[name] = { value: (await what()) ?? null };
    } catch (error) {
      const data = error.data ?? {};
      found[name] = {
        error: {
          code: data.code ?? error.code ?? String(error).slice(0, 300),
          status: error.status ?? error.statusCode ?? null,
        },
      };
    }
  };
  const v2 = sdk.PAIV2.OpenPAIClient;
  const alice = new v2(as("alice"));
  const root = new v2(as("root"));

  await call("api.getClusterInfo", () => alice.api.getClusterInfo());
  await call("authn.basicLogin", () => alice.authn.basicLogin("alice", process.env.PAI_PASSWORD, 600));
  await call("authn.wrongPassword", () => alice.authn.basicLogin("alice", "wrong", 600));
  await call("authn.oidcLogin", () => alice.authn.oidcLogin());
  await call("authn.oidcLogout", () => alice.authn.oidcLogout());
  await call("job.createJob", () => alice.job.createJob(job("one")));
  await call("job.again", () => alice.job.createJob(job("one")));
  await call("job.listJobs", () => alice.job.listJobs({ username: "alice", limit: 10 }));
  await call("job.counted", () => alice.job.listJobs({ withTotalCount: true, order: "jobName,ASC" }));
  await call("job.getJob", () => alice.job.getJob("alice", "one"));
  await call("job.getJobAttempt", () => alice.job.getJob("alice", "one", 0));
  await call("job.missing", () => alice.job.getJob("alice", "none"));
  await call("job.getJobConfig", () => alice.job.getJobConfig("alice", "one"));
  await call("job.addTag", () => alice.job.addTag("alice", "one", "night"));
  await call("job.deleteTag", () => alice.job.deleteTag("alice", "one", "night"));
  await call("job.getTask", () => alice.job.getTask("alice", "one", 0, "worker", 0));
  await call("job.getTaskLogs", () => alice.job.getTaskLogs("alice", "one", 0, "worker", 0, 0, true));
  await call("job.listEvents", () => alice.job.listEvents("alice", "one"));
  await call("jobHistory.getJobAttemptsHealthz", () =>
    alice.jobHistory.getJobAttemptsHealthz("alice", "one"),
  );
  await call("jobHistory.getJobAttempts", () => alice.jobHistory.getJobAttempts("alice", "one"));
  await call("jobHistory.getJobAttempt", () => alice.jobHistory.getJobAttempt("alice", "one", 0));
  await call("job.updateJobExecutionType", () =>
    alice.job.updateJobExecutionType("alice", "one", "STOP"),
  );
  await call("job.stopped", () => alice.job.getJob("alice", "one"));
  await call("virtualCluster.listVirtualClusters", () => alice.virtualCluster.listVirtualClusters());
  await call("virtualCluster.getVirtualCluster", () =>
    alice.virtualCluster.getVirtualCluster("vision"),
  );
  await call("virtualCluster.getVirtualClusterSkuTypes", () =>
    alice.virtualCluster.getVirtualClusterSkuTypes("vision"),
  );
  await call("storage.getStorages", () => alice.storage.getStorages());
  await call("storage.getStorage", () => alice.storage.getStorage("team"));
  await call("token.getTokens", () => alice.token.getTokens());
  await call("token.createApplicationToken", () => alice.token.createApplicationToken());
  const made = found["token.createApplicationToken"].value;
  await call("token.deleteToken", () => alice.token.deleteToken(made ? made.token : "none"));

  const user = { username: "bob", password: process.env.PAI_PASSWORD, virtualCluster: ["vision"] };
  const group = { groupname: "lab", description: "", externalName: "", extension: {} };
  await call("user.createUser", () => root.user.createUser(user));
  await call("user.getAllUser", () => root.user.getAllUser());
  await call("user.getUser", () => root.user.getUser("bob"));
  await call("user.updateUser", () => root.user.updateUser({ username: "bob", email: "b@c.org" }));
  await call("user.updateUserSelf", () => alice.user.updateUserSelf({ username: "alice" }));
  await call("group.createGroup", () => root.group.createGroup(group));
  await call("group.getAllGroup", () => root.group.getAllGroup());
  await call("group.getGroup", () => root.group.getGroup("lab"));
  await call("group.updateGroup", () =>
    root.group.updateGroup({ data: { groupname: "lab", description: "x" }, patch: true }),
  );
  await call("user.updateUserGroup", () => root.user.updateUserGroup("bob", "lab"));
  await call("group.getGroupMembers", () => root.group.getGroupMembers("lab"));
  await call("user.deleteUserGroup", () => root.user.deleteUserGroup("bob", "lab"));
  await call("user.updateUserGrouplist", () => root.user.updateUserGrouplist("bob", ["lab"]));
  await call("group.deleteGroup", () => root.group.deleteGroup("lab"));
  await call("user.deleteUser", () => root.user.deleteUser("bob"));
  await call("kubernetes.getK8sNodes", () => root.kubernetes.getK8sNodes());
  await call("kubernetes.getK8sPods", () => root.kubernetes.getK8sPods({ namespace: "default" }));
  await call("kubernetes.forbidden", () => alice.kubernetes.getK8sNodes());
  await call("authn.basicLogout", () => alice.authn.basicLogout());
  await call("authn.after", () => alice.job.listJobs());
  process.stdout.write(JSON.stringify(found));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
