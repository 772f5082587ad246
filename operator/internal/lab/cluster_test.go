package lab

func managerMain() {}
