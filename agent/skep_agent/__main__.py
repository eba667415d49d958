from skep_agent.main import main

main()
